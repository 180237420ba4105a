//! Finds the MPI library: the named one, else one of the launcher's family, else any.

use std::env;
use std::path::PathBuf;

use crate::border::{self, Opened};
use crate::error::{Error, Result};
use crate::launcher::{Family, Launcher};

/// Names the library, for places where the loader does not find it.
const VARIABLE: &str = "TRITON_BENCH_MPI_LIBRARY";

const OPEN_MPI: [&str; 1] = ["libmpi.so.40"];
/// The standard interface first, because it is the same in every library that has it.
const MPICH: [&str; 3] = ["libmpi_abi.so.1", "libmpi.so.12", "libmpich.so.12"];
/// The name from a development package; it may be either library.
const UNVERSIONED: &str = "libmpi.so";

/// Names to try, in order.
fn names(launcher: Option<Launcher>) -> Vec<&'static str> {
    let (first, others): (&[&str], &[&str]) = match launcher.map(|launcher| launcher.family) {
        Some(Family::OpenMpi) => (&OPEN_MPI, &[]),
        Some(Family::Mpich) => (&MPICH, &[]),
        Some(Family::Slurm) | None => (&OPEN_MPI, &MPICH),
    };
    first.iter().chain(others).copied().chain([UNVERSIONED]).collect()
}

/// Library folders next to a launcher on the PATH, for installations that the loader does not know.
fn beside_launchers() -> Vec<PathBuf> {
    let paths = env::var_os("PATH").unwrap_or_default();
    let holds_launcher = |folder: &PathBuf| ["mpiexec", "mpirun"].iter().any(|name| folder.join(name).is_file());
    let roots = env::split_paths(&paths).filter(holds_launcher).filter_map(|bin| Some(bin.parent()?.to_owned()));
    roots.flat_map(|root| [root.join("lib"), root.join("lib64")]).collect()
}

/// Opens the MPI library.
///
/// # Errors
/// There is none, or it cannot be used.
pub(super) fn open(launcher: Option<Launcher>) -> Result<Opened> {
    if let Some(path) = env::var_os(VARIABLE).map(PathBuf::from) {
        let absent = || Error::machine(format!("{VARIABLE} names '{}', which is not there", path.display()));
        return border::open(&path).map_err(|error| error.context(VARIABLE))?.ok_or_else(absent);
    }
    let names = names(launcher);
    let beside = beside_launchers();
    let places = names.iter().flat_map(|name| {
        let files = beside.iter().map(move |folder| folder.join(name)).filter(|path| path.is_file());
        [PathBuf::from(name)].into_iter().chain(files)
    });
    for path in places {
        if let Some(opened) = border::open(&path)? {
            return Ok(opened);
        }
    }
    Err(Error::machine(format!(
        "--enable-mpi: no MPI library was found (tried {}): install libopenmpi3 or libmpich12, or whatever came with your \
         mpirun, or name the library's file in {VARIABLE}",
        names.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launchers_family_comes_first() {
        let names_of = |family| names(Some(Launcher { family, processes: 2 }));
        assert_eq!(names_of(Family::OpenMpi), ["libmpi.so.40", "libmpi.so"]);
        assert_eq!(names_of(Family::Mpich), ["libmpi_abi.so.1", "libmpi.so.12", "libmpich.so.12", "libmpi.so"]);
        assert_eq!(names_of(Family::Slurm).len(), 5);
        assert_eq!(names(None), names_of(Family::Slurm));
    }
}
