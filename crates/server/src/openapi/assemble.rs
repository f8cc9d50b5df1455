//! Whole documents, put together from the native part and the parts of custom resources.

use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_schema::openapi::{Form, gnostic};
use serde_json::{Value, json};

use super::custom::Part;
use super::document::{Encoding, Sections, entry};
use super::piece::{Packer, Piece, Rendered, total_len};
use super::shared::{Members, Shared};
use crate::discovery::KUBERNETES_VERSION;

/// The native part of a document, compressed.
pub(super) struct NativePart {
    paths: Vec<Piece>,
    definitions: Vec<Piece>,
    shared: Shared,
}

/// Who a document is by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Author {
    /// A server with native resources.
    Server,
    /// The part of upstream that serves nothing but custom resources, which introduces itself otherwise.
    Definitions,
}

impl NativePart {
    pub(super) fn new(sections: Sections, packer: &mut Packer) -> ApiResult<Self> {
        Ok(Self {
            paths: packer.split(&sections.paths)?,
            definitions: packer.split(&sections.definitions)?,
            shared: sections.shared,
        })
    }
}

/// The document of these parts. `shared` is what custom resources refer to.
pub(super) fn assemble(
    form: Form,
    encoding: Encoding,
    author: Author,
    native: &NativePart,
    customs: &[&Part],
    mut shared: Shared,
    packer: &mut Packer,
) -> ApiResult<Rendered> {
    shared.extend(&native.shared);
    let mut document = Assembly { rendered: Rendered::default(), packer };
    let paths = Section { native: &native.paths, customs: customs.iter().map(|part| part.paths.as_slice()).collect() };
    let definitions = Section {
        native: &native.definitions,
        customs: customs.iter().map(|part| part.definitions.as_slice()).collect(),
    };
    if form == Form::V2 {
        match encoding {
            Encoding::Json => document.json_v2(&paths, &definitions, &shared.parameters)?,
            Encoding::Protobuf => document.protobuf_v2(&paths, &definitions, &shared.parameters)?,
        }
        return Ok(document.rendered);
    }
    let [responses, parameters, request_bodies] = document.shared_v3(&shared, encoding)?;
    let alone = |native| Section { native, customs: Vec::new() };
    let responses =
        Section { native: &responses, customs: customs.iter().map(|part| part.responses.as_slice()).collect() };
    let components = Components {
        sections: [
            ("schemas", gnostic::v3::document::SCHEMAS, definitions),
            ("responses", gnostic::v3::document::RESPONSES, responses),
            ("parameters", gnostic::v3::document::PARAMETERS, alone(&parameters)),
            ("requestBodies", gnostic::v3::document::REQUEST_BODIES, alone(&request_bodies)),
        ],
    };
    match encoding {
        Encoding::Json => document.json_v3(author, &paths, &components)?,
        Encoding::Protobuf => document.protobuf_v3(author, &paths, &components)?,
    }
    Ok(document.rendered)
}

/// What a document of version 3 refers to, by name and field number, in the order of numbers.
struct Components<'a> {
    sections: [(&'static str, u32, Section<'a>); 4],
}

impl<'a> Components<'a> {
    /// Those that are not empty.
    fn sections(&self) -> impl Iterator<Item = &(&'static str, u32, Section<'a>)> {
        self.sections.iter().filter(|(.., section)| section.parts().next().is_some())
    }
}

/// The members of an object: the native ones, then those of each custom resource.
struct Section<'a> {
    native: &'a [Piece],
    customs: Vec<&'a [Piece]>,
}

impl<'a> Section<'a> {
    /// The parts that are there.
    fn parts(&self) -> impl Iterator<Item = &'a [Piece]> {
        std::iter::once(self.native).chain(self.customs.iter().copied()).filter(|part| !part.is_empty())
    }

    fn len(&self) -> usize {
        self.parts().map(total_len).sum()
    }
}

struct Assembly<'a> {
    rendered: Rendered,
    packer: &'a mut Packer,
}

impl Assembly<'_> {
    fn text(&mut self, text: impl AsRef<[u8]>) -> ApiResult<()> {
        self.packer.split(text.as_ref())?.into_iter().for_each(|piece| self.rendered.push(piece));
        Ok(())
    }

    fn joined(&mut self, section: &Section<'_>) -> ApiResult<()> {
        let comma = self.packer.piece(b",")?;
        for (at, part) in section.parts().enumerate() {
            if at > 0 {
                self.rendered.push(comma.clone());
            }
            part.iter().for_each(|piece| self.rendered.push(piece.clone()));
        }
        Ok(())
    }

    fn concatenated(&mut self, section: &Section<'_>) {
        section.parts().flatten().for_each(|piece| self.rendered.push(piece.clone()));
    }

    /// Responses, parameters and request bodies in pieces.
    fn shared_v3(&mut self, shared: &Shared, encoding: Encoding) -> ApiResult<[Vec<Piece>; 3]> {
        use gnostic::v3;
        let mut pack = |members: &Members, kind: &gnostic::Kind| {
            let mut text = Vec::new();
            for (name, value) in members {
                match encoding {
                    Encoding::Json => entry(&mut text, name, value).map_err(ApiError::internal)?,
                    Encoding::Protobuf => gnostic::put_entry(&mut text, v3::document::ENTRY, kind, name, value),
                }
            }
            self.packer.split(&text)
        };
        Ok([
            pack(&shared.responses, &v3::RESPONSE_OR_REFERENCE)?,
            pack(&shared.parameters, &v3::PARAMETER_OR_REFERENCE)?,
            pack(&shared.request_bodies, &v3::REQUEST_BODY_OR_REFERENCE)?,
        ])
    }

    fn json_v3(&mut self, author: Author, paths: &Section<'_>, components: &Components<'_>) -> ApiResult<()> {
        self.text(format!(r#"{{"openapi":"3.0.0","info":{},"paths":{{"#, info(author)))?;
        self.joined(paths)?;
        self.text(r#"},"components":{"#)?;
        let mut comma = "";
        for (name, _, section) in components.sections() {
            self.text(format!(r#"{comma}"{name}":{{"#))?;
            self.joined(section)?;
            self.text("}")?;
            comma = ",";
        }
        if author == Author::Server {
            self.text(format!(r#"{comma}"securitySchemes":{}"#, security()))?;
        }
        self.text("}}")
    }

    fn json_v2(&mut self, paths: &Section<'_>, definitions: &Section<'_>, parameters: &Members) -> ApiResult<()> {
        self.text(format!(r#"{{"swagger":"2.0","info":{},"paths":{{"#, info(Author::Server)))?;
        self.joined(paths)?;
        self.text(r#"},"definitions":{"#)?;
        self.joined(definitions)?;
        let parameters = json!(parameters);
        let (schemes, required) = (security(), required_security());
        self.text(format!(r#"}},"parameters":{parameters},"securityDefinitions":{schemes},"security":{required}}}"#))
    }

    fn protobuf_v3(&mut self, author: Author, paths: &Section<'_>, components: &Components<'_>) -> ApiResult<()> {
        use gnostic::v3::{self, document};
        let mut head = Vec::new();
        gnostic::put(&mut head, document::OPENAPI, &v3::TEXT, &"3.0.0".into());
        gnostic::put(&mut head, document::INFO, &v3::INFO, &info(author));
        gnostic::put_head(&mut head, document::PATHS, paths.len());
        self.text(head)?;
        self.concatenated(paths);
        let mut tail = Vec::new();
        if author == Author::Server {
            gnostic::put(&mut tail, document::SECURITY_SCHEMES, &v3::SECURITY_SCHEMES, &security());
        }
        let heads: Vec<(Vec<u8>, &Section<'_>)> = components
            .sections()
            .map(|(_, number, section)| {
                let mut head = Vec::new();
                gnostic::put_head(&mut head, *number, section.len());
                (head, section)
            })
            .collect();
        let len: usize = heads.iter().map(|(head, section)| head.len() + section.len()).sum();
        let mut head = Vec::new();
        gnostic::put_head(&mut head, document::COMPONENTS, len + tail.len());
        self.text(head)?;
        for (head, section) in heads {
            self.text(head)?;
            self.concatenated(section);
        }
        self.text(tail)
    }

    fn protobuf_v2(&mut self, paths: &Section<'_>, definitions: &Section<'_>, parameters: &Members) -> ApiResult<()> {
        use gnostic::v2::{self, document};
        let mut head = Vec::new();
        gnostic::put(&mut head, document::SWAGGER, &v2::TEXT, &"2.0".into());
        gnostic::put(&mut head, document::INFO, &v2::INFO, &info(Author::Server));
        gnostic::put_head(&mut head, document::PATHS, paths.len());
        self.text(head)?;
        self.concatenated(paths);
        let mut middle = Vec::new();
        gnostic::put_head(&mut middle, document::DEFINITIONS, definitions.len());
        self.text(middle)?;
        self.concatenated(definitions);
        let mut tail = Vec::new();
        gnostic::put_nested(&mut tail, document::PARAMETERS, |out| {
            for (name, parameter) in parameters {
                gnostic::put_entry(out, document::ENTRY, &v2::PARAMETER, name, parameter);
            }
        });
        gnostic::put(&mut tail, document::SECURITY, &v2::SECURITY, &required_security());
        gnostic::put(&mut tail, document::SECURITY_DEFINITIONS, &v2::SECURITY_DEFINITIONS, &security());
        self.text(tail)
    }
}

fn info(author: Author) -> Value {
    if author == Author::Definitions {
        return json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"});
    }
    let mut numbers = KUBERNETES_VERSION.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    // Clients compare the title with upstream's.
    json!({"title": "Kubernetes", "version": format!("{major}.{minor}")})
}

fn security() -> Value {
    json!({"BearerToken": {
        "description": "A bearer token.", "in": "header", "name": "authorization", "type": "apiKey",
    }})
}

fn required_security() -> Value {
    json!([{"BearerToken": []}])
}
