//! Seeing inside real servers: the four-letter words and the admin server, over real sockets.

mod connections;
mod ensemble;
mod house;
mod pages;
mod words;
