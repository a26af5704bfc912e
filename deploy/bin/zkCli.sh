#!/bin/sh
# ZooKeeper's command line, for old habits: the same arguments, answered by `pole shell`.
exec "${POLE:-pole}" entrypoint zkCli.sh "$@"
