//! delete and setData.

use pole_jute::{CreateMode, ErrorCode, Reply};

use crate::server::{ALICE, Server, delete, set_data};

#[test]
fn an_invalid_delete_fails_with_apaches_code() {
    let mut server = Server::new();
    server.create("/p", CreateMode::Persistent);
    server.create("/p/a", CreateMode::Persistent);
    let refused = [
        (delete("/none", -1), ErrorCode::NoNode),
        (delete("/none/none", -1), ErrorCode::NoNode),
        (delete("/p", -1), ErrorCode::NotEmpty),
        (delete("/p/a", 3), ErrorCode::BadVersion),
        (delete("odd", -1), ErrorCode::BadArguments),
        (delete("/p/\0", -1), ErrorCode::BadArguments),
        (delete("/", -1), ErrorCode::BadArguments),
        (delete("/zookeeper", -1), ErrorCode::BadArguments),
        (delete("/zookeeper/quota", -1), ErrorCode::BadArguments),
        (delete("/zookeeper/config", -1), ErrorCode::BadArguments),
    ];
    for (request, code) in refused {
        assert_eq!(server.write(&request), Err(code), "{request:?}");
    }
    assert_eq!(server.write(&delete("/p/a", 0)), Ok(Reply::Delete));
    assert_eq!(server.write(&delete("/p", -1)), Ok(Reply::Delete));
}

#[test]
fn a_delete_in_flight_makes_room_for_the_next() {
    let mut server = Server::new();
    server.create("/p", CreateMode::Persistent);
    server.create("/p/a", CreateMode::Persistent);
    server.send(ALICE, &delete("/p/a", -1));
    server.send(ALICE, &delete("/p", -1));
    server.settle();
    assert_eq!(server.tree.stat("/p"), None);
}

#[test]
fn data_is_set_with_its_version() {
    let mut server = Server::new();
    server.create("/a", CreateMode::Persistent);
    server.wall_ms = 5;
    let Ok(Reply::SetData(reply)) = server.write(&set_data("/a", b"one", 0)) else { panic!("version 0 is there") };
    assert_eq!((reply.stat.version, reply.stat.mtime, reply.stat.data_length), (1, 5, 3));
    assert_eq!(reply.stat.mzxid, server.tree.last_zxid());
    assert_eq!(server.write(&set_data("/a", b"two", 0)), Err(ErrorCode::BadVersion));
    assert_eq!(server.write(&set_data("/none", b"", -1)), Err(ErrorCode::NoNode));
    assert_eq!(server.write(&set_data("/a/", b"", -1)), Err(ErrorCode::BadArguments));
    assert_eq!(server.tree.data("/a"), Some(Some(&b"one"[..])));
}

#[test]
fn versions_in_flight_are_counted() {
    let mut server = Server::new();
    server.create("/a", CreateMode::Persistent);
    server.send(ALICE, &set_data("/a", b"one", 0));
    server.send(ALICE, &set_data("/a", b"two", 1));
    server.step();
    assert_eq!(server.tree.stat("/a").unwrap().version, 1);
    server.send(ALICE, &set_data("/a", b"three", 2));
    server.settle();
    assert_eq!(server.tree.data("/a"), Some(Some(&b"three"[..])));
}

#[test]
fn an_error_keeps_its_place_in_the_history() {
    let mut server = Server::new();
    let before = server.tree.last_zxid();
    assert_eq!(server.write(&delete("/none", -1)), Err(ErrorCode::NoNode));
    assert_eq!(server.tree.last_zxid(), before + 1);
}
