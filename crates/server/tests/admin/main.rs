//! Seeing inside real servers: the words of four letters and the admin server, over real sockets.

mod connections;
mod ensemble;
mod house;
mod pages;
mod words;
