//! Patches and server-side apply from the outside: recordings of a real kube-apiserver, and laws that always hold.

mod apply_properties;
mod apply_recorded;
