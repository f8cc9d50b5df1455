//! Where the shared data and the real opm are, when they are.

use std::path::PathBuf;

/// The OLM test data, or `None` with a line that says so.
pub fn data() -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let beside = std::env::var_os("BAILIWICK_SHARED").map(PathBuf::from);
    let candidates = root.ancestors().map(|dir| dir.join("shared")).chain(beside);
    let found = candidates.map(|dir| dir.join("data/olm")).find(|dir| dir.is_dir());
    if found.is_none() {
        bailiwick_skip::skip("shared/data/olm is not here");
    }
    found
}

/// The real opm, or `None` with a line that says so.
pub fn opm() -> Option<PathBuf> {
    tool("opm")
}

/// A program of the tools directory, or of the system, or `None` with a line that says so.
pub fn tool(name: &str) -> Option<PathBuf> {
    let tools = std::env::var_os("BAILIWICK_TOOLS").map(PathBuf::from).or_else(|| {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| std::env::home_dir().map(|home| home.join(".cache")))?;
        Some(cache.join("bailiwick-tools"))
    });
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let found = tools.into_iter().chain(system).map(|dir| dir.join(name)).find(|path| path.is_file());
    if found.is_none() {
        bailiwick_skip::skip(format_args!("{name} is not installed (cargo xtask setup)"));
    }
    found
}
