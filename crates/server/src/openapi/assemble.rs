//! Whole documents, put together from the native part and the parts of custom resources.

use bailiwick_machinery::status::ApiResult;
use bailiwick_schema::openapi::{Form, gnostic};
use serde_json::{Value, json};

use super::custom::Part;
use super::document::{Encoding, Sections};
use super::operation::SharedParameters;
use super::piece::{Packer, Piece, Rendered, total_len};
use crate::discovery::KUBERNETES_VERSION;

/// The native part of a document, compressed.
pub(super) struct NativePart {
    paths: Vec<Piece>,
    definitions: Vec<Piece>,
    parameters: SharedParameters,
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
            parameters: sections.parameters,
        })
    }
}

/// The document of these parts. `parameters` are those that custom resources share.
pub(super) fn assemble(
    form: Form,
    encoding: Encoding,
    author: Author,
    native: &NativePart,
    customs: &[&Part],
    parameters: &SharedParameters,
    packer: &mut Packer,
) -> ApiResult<Rendered> {
    let mut document = Assembly { rendered: Rendered::default(), packer };
    let paths = Section {
        native: &native.paths,
        customs: customs.iter().map(|part| std::slice::from_ref(&part.paths)).collect(),
    };
    let definitions = Section {
        native: &native.definitions,
        customs: customs.iter().map(|part| part.definitions.as_slice()).collect(),
    };
    let parameters: SharedParameters =
        native.parameters.iter().chain(parameters).map(|(name, value)| (name.clone(), value.clone())).collect();
    match (encoding, form) {
        (Encoding::Json, Form::V2) => document.json_v2(&paths, &definitions, parameters)?,
        (Encoding::Json, Form::V3) => document.json_v3(author, &paths, &definitions)?,
        (Encoding::Protobuf, Form::V2) => document.protobuf_v2(&paths, &definitions, &parameters)?,
        (Encoding::Protobuf, Form::V3) => document.protobuf_v3(author, &paths, &definitions)?,
    }
    Ok(document.rendered)
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

    fn json_v3(&mut self, author: Author, paths: &Section<'_>, definitions: &Section<'_>) -> ApiResult<()> {
        self.text(format!(r#"{{"openapi":"3.0.0","info":{},"paths":{{"#, info(author)))?;
        self.joined(paths)?;
        self.text(r#"},"components":{"#)?;
        let has_definitions = definitions.parts().next().is_some();
        if has_definitions {
            self.text(r#""schemas":{"#)?;
            self.joined(definitions)?;
            self.text("}")?;
        }
        if author == Author::Server {
            let comma = if has_definitions { "," } else { "" };
            self.text(format!(r#"{comma}"securitySchemes":{}"#, security()))?;
        }
        self.text("}}")
    }

    fn json_v2(
        &mut self,
        paths: &Section<'_>,
        definitions: &Section<'_>,
        parameters: SharedParameters,
    ) -> ApiResult<()> {
        self.text(format!(r#"{{"swagger":"2.0","info":{},"paths":{{"#, info(Author::Server)))?;
        self.joined(paths)?;
        self.text(r#"},"definitions":{"#)?;
        self.joined(definitions)?;
        let parameters = Value::Object(parameters.into_iter().collect());
        let (schemes, required) = (security(), required_security());
        self.text(format!(r#"}},"parameters":{parameters},"securityDefinitions":{schemes},"security":{required}}}"#))
    }

    fn protobuf_v3(&mut self, author: Author, paths: &Section<'_>, definitions: &Section<'_>) -> ApiResult<()> {
        use gnostic::v3::{self, document};
        let mut head = Vec::new();
        gnostic::put(&mut head, document::OPENAPI, &v3::TEXT, &"3.0.0".into());
        gnostic::put(&mut head, document::INFO, &v3::INFO, &info(author));
        gnostic::put_head(&mut head, document::PATHS, paths.len());
        self.text(head)?;
        self.concatenated(paths);
        let (mut schemas, mut tail) = (Vec::new(), Vec::new());
        if definitions.len() > 0 {
            gnostic::put_head(&mut schemas, document::SCHEMAS, definitions.len());
        }
        if author == Author::Server {
            gnostic::put(&mut tail, document::SECURITY_SCHEMES, &v3::SECURITY_SCHEMES, &security());
        }
        let mut components = Vec::new();
        let len = schemas.len() + definitions.len() + tail.len();
        gnostic::put_head(&mut components, document::COMPONENTS, len);
        components.extend_from_slice(&schemas);
        self.text(components)?;
        self.concatenated(definitions);
        self.text(tail)
    }

    fn protobuf_v2(
        &mut self,
        paths: &Section<'_>,
        definitions: &Section<'_>,
        parameters: &SharedParameters,
    ) -> ApiResult<()> {
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
