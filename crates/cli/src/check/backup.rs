//! `pole check BACKUP`: whether a snapshot can be restored, and what it contains.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use pole_api::commands::BackupChecked;
use pole_server::inspect_backup;

use super::data::{content_checked, described};
use super::print_as;
use crate::failure::{Failure, Kind};
use crate::paint::Paint;

/// Whether a file begins like a snapshot. No configuration does.
pub(super) fn is_snapshot(path: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok_and(|()| magic == *b"ZKSN")
}

pub(super) fn run(path: &Path, json: bool, paint: Paint) -> Result<(), Failure> {
    let file = path.display().to_string();
    let checked = match inspect_backup(path) {
        Ok((content, zxid)) => BackupChecked {
            file,
            error: None,
            zxid: zxid.map(|zxid| format!("{:#x}", zxid.0)),
            content: Some(content_checked(content)),
        },
        Err(error) => BackupChecked { file, error: Some(error), ..BackupChecked::default() },
    };
    print_as(&checked, json, |checked| text(checked, paint))?;
    match checked.error {
        None => Ok(()),
        Some(error) => Err(Failure::new(Kind::BadData, format!("{}: {error}", checked.file))),
    }
}

fn text(checked: &BackupChecked, paint: Paint) -> String {
    let Some(content) = &checked.content else { return String::new() };
    let zxid = match &checked.zxid {
        Some(zxid) => format!("a snapshot at {zxid}"),
        None => "a snapshot that does not name its last transaction".to_owned(),
    };
    format!("{}: {}, {zxid}.\n{}", checked.file, paint.green("whole"), described(content))
}
