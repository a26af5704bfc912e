//! whoAmI: the identities of the connection, without their secrets.

use pole_jute::{ClientInfo, ErrorCode, Id, Record, WhoAmIResponse, Writer};

use crate::Caller;
use crate::auth::user_name;

pub(crate) fn read(caller: &Caller, reply: &mut Writer) -> Result<(), ErrorCode> {
    let client_info = caller.ids.iter().map(to_client_info).collect();
    WhoAmIResponse { client_info }.write(reply);
    Ok(())
}

fn to_client_info(id: &Id) -> ClientInfo {
    ClientInfo { auth_scheme: id.scheme.clone(), user: user_name(id).into() }
}
