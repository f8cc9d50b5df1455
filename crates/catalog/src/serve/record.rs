//! What the index file holds of a package: its channels, their entries and where the documents of its bundles are. A
//! record is read when somebody asks for the package. Lists are sorted by name.

use prost::Message;

use super::index::Span;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Package {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) default_channel: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) channels: Vec<Channel>,
    #[prost(string, optional, tag = "4")]
    pub(super) deprecation: Option<String>,
    /// Its document.
    #[prost(message, required, tag = "5")]
    pub(super) meta: Place,
    /// Every bundle once.
    #[prost(message, repeated, tag = "6")]
    pub(super) bundles: Vec<Bundle>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Channel {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) head: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) entries: Vec<Entry>,
    #[prost(string, optional, tag = "4")]
    pub(super) deprecation: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Entry {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    /// Of the package's bundles.
    #[prost(uint32, tag = "2")]
    pub(super) bundle: u32,
    #[prost(string, tag = "3")]
    pub(super) replaces: String,
    #[prost(string, repeated, tag = "4")]
    pub(super) skips: Vec<String>,
    #[prost(string, tag = "5")]
    pub(super) skip_range: String,
    #[prost(string, optional, tag = "6")]
    pub(super) deprecation: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Bundle {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    /// Its message without channel and manifests.
    #[prost(message, required, tag = "2")]
    pub(super) light: Place,
    /// Its document.
    #[prost(message, required, tag = "3")]
    pub(super) meta: Place,
    #[prost(bool, tag = "4")]
    pub(super) has_image: bool,
    /// What its ClusterServiceVersion is called, if the catalog has it.
    #[prost(string, tag = "5")]
    pub(super) display_name: String,
    #[prost(message, repeated, tag = "6")]
    pub(super) provides: Vec<Api>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Api {
    #[prost(string, tag = "1")]
    pub(super) group: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
    #[prost(string, tag = "3")]
    pub(super) kind: String,
}

/// A [`Span`] in a record.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Place {
    #[prost(uint64, tag = "1")]
    at: u64,
    #[prost(uint32, tag = "2")]
    length: u32,
}

impl From<Span> for Place {
    fn from(Span { at, length }: Span) -> Self {
        Place { at, length }
    }
}

impl Place {
    pub(super) fn span(&self) -> Span {
        Span { at: self.at, length: self.length }
    }
}

/// An entry with what it belongs to.
#[derive(Clone, Copy)]
pub(super) struct Position<'r> {
    pub(super) package: &'r Package,
    pub(super) channel: &'r Channel,
    pub(super) entry: &'r Entry,
}

impl Package {
    pub(super) fn channel(&self, name: &str) -> Option<&Channel> {
        let at = self.channels.binary_search_by(|it| it.name.as_str().cmp(name)).ok()?;
        self.channels.get(at)
    }

    pub(super) fn positions(&self) -> impl Iterator<Item = Position<'_>> {
        self.channels.iter().flat_map(move |channel| {
            channel.entries.iter().map(move |entry| Position { package: self, channel, entry })
        })
    }
}

impl Channel {
    pub(super) fn entry(&self, name: &str) -> Option<&Entry> {
        let at = self.entries.binary_search_by(|it| it.name.as_str().cmp(name)).ok()?;
        self.entries.get(at)
    }
}

impl<'r> Position<'r> {
    pub(super) fn bundle(&self) -> Option<&'r Bundle> {
        self.package.bundles.get(self.entry.bundle as usize)
    }
}
