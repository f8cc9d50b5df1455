//! The flags of `bailiwick serve` that say what writes must pass.

use std::path::PathBuf;

use bailiwick::AdmissionOptions;

#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Admission")]
pub struct Flags {
    /// Admission plugins to run besides those that run by default (comma-separated).
    #[arg(long, value_delimiter = ',')]
    enable_admission_plugins: Vec<String>,
    /// Admission plugins not to run although they run by default (comma-separated).
    #[arg(long, value_delimiter = ',')]
    disable_admission_plugins: Vec<String>,
    /// File with the configuration of admission plugins: an AdmissionConfiguration.
    #[arg(long)]
    admission_control_config_file: Option<PathBuf>,
}

impl Flags {
    pub fn options(&self) -> AdmissionOptions {
        AdmissionOptions {
            enable: self.enable_admission_plugins.clone(),
            disable: self.disable_admission_plugins.clone(),
            config_file: self.admission_control_config_file.clone(),
            plugins: Vec::new(),
        }
    }
}
