//! CustomResourceDefinitions on a whole control plane: a change holds for the very next request, and definitions that mean
//! harm are served within limits of time and memory.

mod changes;
mod hostile;
mod plane;
mod process;
