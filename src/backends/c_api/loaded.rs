//! The backends loaded into this process, and their builds. Triton does not report versions, because it does not ask
//! backends for them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};

use crate::backend::BackendIdentity;
use crate::machine::libraries;

/// Larger files are not read: a start must not take seconds.
const MAX_BYTES: u64 = 256 << 20;

/// The loaded backends, by name.
pub fn backends() -> Vec<BackendIdentity> {
    among(&libraries::mapped())
}

fn among(files: &BTreeSet<PathBuf>) -> Vec<BackendIdentity> {
    let identity = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?.strip_prefix("libtriton_")?.strip_suffix(".so")?.to_owned();
        let beside = files.iter().filter(|other| other.parent() == path.parent());
        let versions = beside.filter_map(|other| other.file_name()?.to_str()).filter(|name| has_version(name));
        Some(BackendIdentity {
            name,
            library: path.clone(),
            sha256: hash(path),
            versions: versions.map(str::to_owned).collect(),
        })
    };
    let mut all: Vec<BackendIdentity> = files.iter().filter_map(identity).collect();
    all.sort_by(|left, right| left.name.cmp(&right.name));
    all
}

/// Whether a library's name ends in a version of two parts or more; a single part is that of its interface.
fn has_version(name: &str) -> bool {
    name.rsplit_once(".so.").is_some_and(|(_, version)| {
        version.contains('.') && version.chars().all(|letter| letter.is_ascii_digit() || letter == '.')
    })
}

fn hash(path: &Path) -> Option<String> {
    if fs::metadata(path).ok()?.len() > MAX_BYTES {
        return None;
    }
    let (mut file, mut context) = (File::open(path).ok()?, Context::new(&SHA256));
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).ok()? {
            0 => break,
            count => context.update(&buffer[..count]),
        }
    }
    Some(context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_is_known_by_its_library_and_by_the_versions_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("libtriton_onnxruntime.so"), "abc").unwrap();
        let names = ["libtriton_onnxruntime.so", "libonnxruntime.so.1.19.2", "libstdc++.so.6", "libtritonserver.so"];
        let mut files: BTreeSet<PathBuf> = names.into_iter().map(path).collect();
        files.extend(["/elsewhere/libother.so.1.2.3".into(), "/elsewhere/libtriton_gone.so".into()]);
        let all = among(&files);
        assert_eq!(all.iter().map(|identity| identity.name.as_str()).collect::<Vec<_>>(), ["gone", "onnxruntime"]);
        assert_eq!((all[0].sha256.as_ref(), &all[0].versions[..]), (None, &["libother.so.1.2.3".to_owned()][..]));
        assert_eq!(all[1].versions, ["libonnxruntime.so.1.19.2"]);
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((all[1].sha256.as_deref(), &all[1].library), (Some(hash), &path("libtriton_onnxruntime.so")));
    }
}
