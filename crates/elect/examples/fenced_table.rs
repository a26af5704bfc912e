//! A table of PostgreSQL that refuses the writes of a leader that was replaced.
//!
//! Every write carries the fencing token of its sender, and a trigger compares it with that of the last write. So it does
//! not matter how late a leader learns that it was replaced, nor whether its code remembers to ask.
//!
//! `cargo run --features postgres --example fenced_table -- postgres://user@host/database/app/leader DATABASE_URL`

use pole_elect::{Candidate, Token, stores};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

type Failure = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [election, database] = &args[..] else { return Err("usage: fenced_table ELECTION DATABASE".into()) };
    let (balance, written) = replace_a_leader(election, database).await?;
    println!("balance {balance}; the old leader {}", if written { "could still write" } else { "was refused" });
    Ok(())
}

/// Two leaders withdraw, one after the other, and then the first one again. Returns the balance, and whether the last
/// write was accepted.
pub(crate) async fn replace_a_leader(election: &str, database: &str) -> Result<(i64, bool), Failure> {
    let account = open(database).await?;
    let old = Candidate::builder(stores::open(&election.parse()?).await?, "old").join()?;
    let guard = old.campaign().await?;
    let old_token = guard.token();
    withdraw(&account, old_token, 10).await?;
    // It gives up, but a part of it does not know: a thread that was stopped, a request that is still on its way.
    drop(guard);
    old.leave().await;

    let new = Candidate::builder(stores::open(&election.parse()?).await?, "new").join()?;
    let guard = new.campaign().await?;
    withdraw(&account, guard.token(), 20).await?;
    let written = withdraw(&account, old_token, 40).await?;
    let balance = account.query_one("SELECT balance FROM account WHERE id = 7", &[]).await?.get(0);
    drop(guard);
    new.leave().await;
    Ok((balance, written))
}

/// Withdraws from the account. False if the table refuses the token.
async fn withdraw(account: &Client, token: Token, amount: i64) -> Result<bool, tokio_postgres::Error> {
    let token = token.number().cast_signed();
    let update = "UPDATE account SET balance = balance - $1, token = $2 WHERE id = 7";
    match account.execute(update, &[&amount, &token]).await {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some(&SqlState::CHECK_VIOLATION) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn open(database: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(database, NoTls).await?;
    tokio::spawn(connection);
    client.batch_execute(TABLE).await?;
    Ok(client)
}

const TABLE: &str = "
CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL, token bigint NOT NULL);
INSERT INTO account VALUES (7, 100, 0);
CREATE FUNCTION refuse_older_token() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.token < OLD.token THEN
        RAISE EXCEPTION 'token % is older than %', NEW.token, OLD.token USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER refuse_older_token BEFORE UPDATE ON account FOR EACH ROW EXECUTE FUNCTION refuse_older_token();";
