//! Tests of the four-letter words and the admin server, over real sockets.

mod answers;
mod audit;
mod backup;
mod certificates;
mod connections;
mod dashboard;
mod ensemble;
mod fields;
mod four_letter;
mod members;
mod monitoring;
mod names;
mod observers;
mod pages;
mod test_server;
mod throttling;
