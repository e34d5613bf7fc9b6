//! Who a user is: the system's directory (NSS), or a program of the site's own.
//!
//! These calls block, for seconds when a directory server is away; they run on threads
//! of their own and never on an event loop. "There is no such user" and "nobody
//! answers" are told apart as well as the system lets one.

use cosy_control::LookupFailure;
use cosy_model::{Gid, Group, Uid, User, limits};
use nix::unistd;
use std::ffi::CString;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Exit code with which a look-up program says that there is no such user.
const NO_SUCH_USER: i32 = 2;

/// How long whoever asks for something waits for who that is.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Looks a user up. Blocks.
///
/// # Errors
/// [`LookupFailure`].
pub fn look_up(uid: Uid, command: Option<&[String]>) -> Result<User, LookupFailure> {
    match command {
        Some(command) => ask_command(uid, command),
        None => ask_system(uid),
    }
}

fn ask_system(uid: Uid) -> Result<User, LookupFailure> {
    let found = unistd::User::from_uid(unistd::Uid::from_raw(uid.0));
    let entry = match found {
        Ok(Some(entry)) => entry,
        Ok(None) if uid.0 == unistd::getuid().as_raw() => return Ok(nameless(uid)),
        Ok(None) => return Err(LookupFailure::Unknown),
        Err(_) => return Err(LookupFailure::Down),
    };
    let name = CString::new(entry.name.as_bytes()).map_err(|_| LookupFailure::Down)?;
    let gids = unistd::getgrouplist(&name, entry.gid).map_err(|_| LookupFailure::Down)?;
    let groups = gids.into_iter().map(|g| group(Gid(g.as_raw()))).collect();
    Ok(User {
        uid,
        name: entry.name,
        gid: Gid(entry.gid.as_raw()),
        groups,
        home: entry.dir.to_string_lossy().into_owned(),
        shell: entry.shell.to_string_lossy().into_owned(),
    })
}

/// The daemon's own user may be without an entry (containers have such): then it has the
/// groups that the daemon has. Of anyone else a missing entry may mean that a directory
/// server is away, and their jobs must not run with wrong groups.
fn nameless(uid: Uid) -> User {
    let gid = Gid(unistd::getgid().as_raw());
    let mut gids: Vec<Gid> = unistd::getgroups()
        .unwrap_or_default()
        .into_iter()
        .map(|g| Gid(g.as_raw()))
        .collect();
    if !gids.contains(&gid) {
        gids.insert(0, gid);
    }
    User {
        uid,
        name: uid.to_string(),
        gid,
        groups: gids.into_iter().map(group).collect(),
        home: "/".to_owned(),
        shell: "/bin/sh".to_owned(),
    }
}

fn group(gid: Gid) -> Group {
    let found = unistd::Group::from_gid(unistd::Gid::from_raw(gid.0));
    let name = match found {
        Ok(Some(entry)) => entry.name,
        Ok(None) | Err(_) => gid.to_string(),
    };
    Group { gid, name }
}

/// Runs the site's program with the uid; it prints
/// `name:uid:gid:home:shell:gid=name,gid=name`.
fn ask_command(uid: Uid, command: &[String]) -> Result<User, LookupFailure> {
    let (program, args) = command.split_first().ok_or(LookupFailure::Down)?;
    let output = Command::new(program)
        .args(args)
        .arg(uid.to_string())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|_| LookupFailure::Down)?;
    match output.status.code() {
        Some(0) => {}
        Some(NO_SUCH_USER) => return Err(LookupFailure::Unknown),
        Some(_) | None => return Err(LookupFailure::Down),
    }
    let text = String::from_utf8_lossy(&output.stdout);
    parse(uid, text.lines().next().unwrap_or("")).ok_or(LookupFailure::Down)
}

fn parse(uid: Uid, line: &str) -> Option<User> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, id, gid, home, shell, groups] = fields.as_slice() else {
        return None;
    };
    if id.parse() != Ok(uid.0) || name.is_empty() {
        return None;
    }
    let gid = Gid(gid.parse().ok()?);
    let mut all = Vec::new();
    for entry in groups.split(',').filter(|g| !g.is_empty()) {
        let (gid, name) = entry.split_once('=').unwrap_or((entry, entry));
        all.push(Group {
            gid: Gid(gid.parse().ok()?),
            name: name.to_owned(),
        });
    }
    if !all.iter().any(|group| group.gid == gid) {
        let name = gid.to_string();
        all.insert(0, Group { gid, name });
    }
    if all.len() > limits::GROUPS {
        return None;
    }
    Some(User {
        uid,
        name: (*name).to_owned(),
        gid,
        groups: all,
        home: (*home).to_owned(),
        shell: (*shell).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_program() {
        let user = parse(Uid(7), "ann:7:100:/home/ann:/bin/sh:100=users,4=adm").unwrap();
        assert_eq!((user.gid, user.groups.len()), (Gid(100), 2));
        assert!(user.in_group("adm"));
        let user = parse(Uid(7), "ann:7:100:/home/ann:/bin/sh:4=adm").unwrap();
        assert_eq!(user.gids(), [Gid(100), Gid(4)], "the primary group too");
        for bad in [
            "",
            "ann",
            "ann:8:1:/:/bin/sh:",
            ":7:1:/:/bin/sh:",
            "ann:7:x:/:/s:",
            "ann:7:1:/:/s:x=y",
        ] {
            assert!(parse(Uid(7), bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn root_is_known() {
        assert_eq!(look_up(Uid(0), None).unwrap().name, "root");
    }
}
