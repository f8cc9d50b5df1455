//! What the program does when its disk or its clock fails it: the embedded store on a full disk, on a read-only one, with
//! damaged files, and under a clock that jumps. Each ends in words that say what to do, and nothing acknowledged is lost.

mod clock;
mod damage;
mod full_disk;
mod place;
mod read_only;
