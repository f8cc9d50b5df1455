//! File-based catalogs: a directory of JSON and YAML streams whose documents are packages, channels, bundles,
//! deprecations and objects of schemas that we do not know. Loading is streaming and parallel, with results in the
//! order of paths; nothing holds a whole file.

mod documents;
mod ignore;
mod load;
mod meta;
mod parse;
mod types;
mod walk;
mod write;

pub use documents::{Document, DocumentReader, Form};
pub use load::{LoadError, Location, for_each_meta, load, load_text};
pub use meta::Meta;
pub use types::{
    Bundle, Catalog, Channel, ChannelEntry, Deprecation, DeprecationEntry, Icon, Object, Package, Property,
    RelatedImage, schema,
};
pub use walk::catalog_files;
pub(crate) use walk::refuse_special;
pub use write::{Output, write_catalog, write_directory, write_meta};

pub(crate) use load::metas_of_text;
pub(crate) use parse::{ParseError, parse_lenient, parse_tolerant};
pub(crate) use types::{BUNDLE, Fields, Objects, decode_icon};
pub(crate) use write::bundle_json;
