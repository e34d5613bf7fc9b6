//! Users of this host by name.

/// Whether there is such a user, by name or number.
pub fn exists(user: &str) -> bool {
    if !user.is_empty() && user.bytes().all(|b| b.is_ascii_digit()) {
        return true;
    }
    matches!(nix::unistd::User::from_name(user), Ok(Some(_)))
}

/// A group's name; the number where it has none.
pub fn group(gid: u32) -> String {
    match nix::unistd::Group::from_gid(nix::unistd::Gid::from_raw(gid)) {
        Ok(Some(group)) => group.name,
        Ok(None) | Err(_) => gid.to_string(),
    }
}

/// A user's number, by name.
pub fn number(user: &str) -> Option<i64> {
    let found = nix::unistd::User::from_name(user).ok()??;
    Some(i64::from(found.uid.as_raw()))
}
