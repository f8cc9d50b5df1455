//! A tree of what is wrong, drawn as opm draws it.

/// A statement, with what supports it below.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    pub message: String,
    pub causes: Vec<Problem>,
}

impl Problem {
    /// Something that may turn out to be wrong.
    pub fn new(message: impl Into<String>) -> Self {
        Problem { message: message.into(), causes: Vec::new() }
    }

    /// Adds a cause.
    pub fn push(&mut self, message: impl Into<String>) {
        self.causes.push(Problem::new(message));
    }

    /// Nothing without causes.
    pub fn or_none(self) -> Option<Self> {
        (!self.causes.is_empty()).then_some(self)
    }

    /// The tree as text.
    pub fn draw(&self) -> String {
        let mut out = String::new();
        self.draw_at(&mut out, "", "");
        out.trim().to_owned()
    }

    fn draw_at(&self, out: &mut String, branch: &str, below: &str) {
        out.push_str(branch);
        out.push_str(&self.message);
        out.push_str(if self.causes.is_empty() { "\n" } else { ":\n" });
        for (i, cause) in self.causes.iter().enumerate() {
            let (branch, deeper) =
                if i + 1 == self.causes.len() { ("└── ", "    ") } else { ("├── ", "│   ") };
            cause.draw_at(out, &format!("{below}{branch}"), &format!("{below}{deeper}"));
        }
    }
}
