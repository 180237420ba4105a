//! The files that this process executes code from.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::machine::read;

/// The files that are mapped as executable; those that were replaced or removed meanwhile are left out, because the
/// file on disk is then a different one.
pub fn mapped() -> BTreeSet<PathBuf> {
    parse(&read("/proc/self/maps").unwrap_or_default())
}

/// The files in a table of the kernel: address, rights, offset, device, inode, path.
fn parse(table: &str) -> BTreeSet<PathBuf> {
    let path = |line: &str| {
        let (rights, path) = (line.split_whitespace().nth(1)?, &line[line.find('/')?..]);
        (rights.contains('x') && !path.ends_with(" (deleted)")).then(|| PathBuf::from(path))
    };
    table.lines().filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_code_are_told_once() {
        let table = "7f1-7f2 r-xp 00000000 08:01 17   /opt/a b/libone.so\n7f2-7f3 r--p 00000000 08:01 17   /opt/a b/libone.so\n\
            7f3-7f4 r-xp 00000000 08:01 18   /opt/libgone.so (deleted)\n7f4-7f5 rw-p 00000000 00:00 0    [heap]\n\
            7f5-7f6 r--p 00000000 08:01 19   /opt/data\n";
        assert_eq!(parse(table), BTreeSet::from([PathBuf::from("/opt/a b/libone.so")]));
        assert!(mapped().contains(&std::env::current_exe().unwrap()), "this program is one of them");
    }
}
