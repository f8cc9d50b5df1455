//! Project control planes: every Project of the root is a complete API of its own.
//!
//! [`types`] defines Organization and Project, [`owner`] ties a project to its organization, [`planes`] puts the control
//! plane of a project together from what it shares and what is its own, [`defaults`] knows the objects it has from the
//! start, and [`lifecycle`] says that a project is ready and removes everything of one that is deleted.

mod defaults;
mod lifecycle;
mod owner;
mod planes;
mod types;

pub(crate) use lifecycle::{Lifecycle, start};
pub(crate) use owner::ProjectOwner;
pub(crate) use planes::{Planes, PlanesParts};
pub(crate) use types::resources;

/// The API group of organizations and projects.
pub(crate) const GROUP: &str = "resourcemanager.miloapis.com";
/// Their version.
pub(crate) const VERSION: &str = "v1alpha1";
/// Kept on a Project until nothing of its control plane is left.
pub(crate) const FINALIZER: &str = "resourcemanager.miloapis.com/control-plane";

/// Whether there are project control planes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Projects {
    /// Organizations and Projects are served, and each Project is an API of its own.
    #[default]
    Served,
    /// There is the root control plane and no other.
    Off,
}
