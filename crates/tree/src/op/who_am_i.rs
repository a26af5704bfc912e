//! whoAmI: the identities of the connection, without their secrets.

use alloc::string::String;

use pole_jute::{ClientInfo, ErrorCode, Id, Record, WhoAmIResponse, Writer};

use crate::Caller;

pub(crate) fn read(caller: &Caller, reply: &mut Writer) -> Result<(), ErrorCode> {
    let client_info = caller.ids.iter().map(to_client_info).collect();
    WhoAmIResponse { client_info }.write(reply);
    Ok(())
}

fn to_client_info(id: &Id) -> ClientInfo {
    let user = match id.scheme.as_str() {
        "digest" => id.id.split(':').next().unwrap_or_default().into(),
        // The super user has no name.
        "super" => String::new(),
        _ => id.id.clone(),
    };
    ClientInfo { auth_scheme: id.scheme.clone(), user }
}
