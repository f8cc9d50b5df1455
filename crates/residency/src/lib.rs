//! Gives back the pages of the program that only its start needed.
//!
//! The kernel maps sixteen pages of the program around each one that is touched, so a server that has started has nearly all of
//! its code resident, command line and first-start work included, and would keep it until the machine runs short of memory.
//! [`release_program`] takes code and constants out of this process' page table. They stay in the page cache: what is used again
//! comes back by a fault without a read, at some microseconds for 64 KiB.
//!
//! This is the only crate with `unsafe`: there is no safe call for it. The argument is beside the call, and rests on
//! [`Mapping::is_as_in_the_file`], which is all that decides what is touched.

use std::io;
use std::path::Path;

/// Takes code and constants of the running program out of memory and says how many bytes of addresses that were. Anywhere but on
/// Linux it does nothing.
#[cfg(target_os = "linux")]
pub fn release_program() -> io::Result<usize> {
    let program = std::fs::read_link("/proc/self/exe")?;
    let maps = std::fs::read_to_string("/proc/self/smaps")?;
    let mut released = 0;
    for mapping in mappings(&maps).filter(|mapping| mapping.is_as_in_the_file(&program)) {
        let length = mapping.end - mapping.start;
        let address = std::ptr::with_exposed_provenance_mut::<core::ffi::c_void>(mapping.start);
        // SAFETY: DONTNEED on a private mapping of a file throws away this process' own copies of its pages; the next access
        // reads the file. The kernel has just listed this mapping as the program's own, not writable and without a copied page
        // (relocated constants are copies, so their mapping is left alone). It stays so: the loader has relocated and protected
        // the program before `main`, nothing in this program unmaps or reprotects itself, and the kernel refuses writes to the
        // file of a running program. Every access by any thread, before, during and after the call, therefore sees the same bytes.
        unsafe { rustix::mm::madvise(address, length, rustix::mm::Advice::LinuxDontNeed) }?;
        released += length;
    }
    Ok(released)
}

/// Takes code and constants of the running program out of memory where the system can.
#[cfg(not(target_os = "linux"))]
pub fn release_program() -> io::Result<usize> {
    Ok(0)
}

/// What `/proc/self/smaps` says of a mapped file.
#[derive(Debug)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
struct Mapping<'a> {
    start: usize,
    end: usize,
    permissions: &'a str,
    path: &'a str,
    /// Pages that are this process' own, as the kernel writes their size; `None` where it does not tell.
    copied: Option<&'a str>,
}

/// Each line with addresses begins a mapping, the lines up to the next are about it.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn mappings(smaps: &str) -> impl Iterator<Item = Mapping<'_>> {
    let mut lines = smaps.lines().peekable();
    std::iter::from_fn(move || {
        loop {
            let Some(mut mapping) = Mapping::parse(lines.next()?) else { continue };
            while let Some(line) = lines.next_if(|line| Mapping::parse(line).is_none()) {
                if let Some(size) = line.strip_prefix("Anonymous:") {
                    mapping.copied = Some(size.trim());
                }
            }
            return Some(mapping);
        }
    })
}

#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
impl<'a> Mapping<'a> {
    /// Of `start-end permissions offset device inode path`.
    fn parse(line: &'a str) -> Option<Self> {
        let mut rest = line;
        let mut field = || {
            let (first, after) = rest.trim_start().split_once(' ')?;
            rest = after;
            Some(first)
        };
        let (start, end) = field()?.split_once('-')?;
        let permissions = field()?;
        let _offset_device_inode = (field()?, field()?, field()?);
        let address = |text| usize::from_str_radix(text, 16).ok();
        Some(Self { start: address(start)?, end: address(end)?, permissions, path: rest.trim_start(), copied: None })
    }

    /// Whether it is the program's, cannot be written and never was.
    fn is_as_in_the_file(&self, program: &Path) -> bool {
        matches!(self.permissions, "r-xp" | "r--p")
            && self.copied == Some("0 kB")
            && self.start < self.end
            && Path::new(self.path) == program
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_as_in_the_file_of_the_program_is_given_back() {
        let smaps = "\
55ffff525000-5600000ae000 r--p 00000000 fe:00 10045685                   /opt/bail wick
Rss:                4356 kB
Anonymous:             0 kB
VmFlags: rd mr mw me sd
5600000ae000-5600022d6000 r-xp 00b88000 fe:00 10045685                   /opt/bail wick
Anonymous:             0 kB
5600022d6000-560002424000 r--p 02daf000 fe:00 10045685                   /opt/bail wick
Anonymous:          1336 kB
560002424000-560002440000 rw-p 02efd000 fe:00 10045685                   /opt/bail wick
Anonymous:             0 kB
560002440000-560002450000 rwxp 02efd000 fe:00 10045685                   /opt/bail wick
Anonymous:             0 kB
560002450000-560002460000 r-xp 02efd000 fe:00 10045685                   /opt/bail wick
560002460000-560002470000 r-xp 02efd000 fe:00 10045685                   /opt/bail wick (deleted)
Anonymous:             0 kB
47a2d000000-47a6d000000 rw-p 00000000 00:00 0 
Anonymous:          5464 kB
7feb64bea000-7feb64d40000 r-xp 00026000 fe:00 326269                     /usr/lib/libc.so.6
Anonymous:             0 kB
7ffd0c1f1000-7ffd0c1f3000 r-xp 00000000 00:00 0                          [vdso]
Anonymous:             0 kB
nonsense
";
        let given: Vec<usize> = mappings(smaps)
            .filter(|mapping| mapping.is_as_in_the_file(Path::new("/opt/bail wick")))
            .map(|mapping| mapping.start)
            .collect();
        assert_eq!(given, [0x55ff_ff52_5000, 0x5600_000a_e000]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_program_goes_on_after_its_pages_were_given_back() {
        static RELOCATED: [&str; 3] = ["one", "two", "three"];
        let released = release_program().expect("own maps can be read");
        assert!(released > 0, "the code of this test has an address");
        assert_eq!(RELOCATED.map(str::len), [3, 3, 5]);
        assert!(std::thread::spawn(release_program).join().expect("a new thread runs").is_ok());
    }
}
