//! A Dockerfile for a catalog, for those who build their images with Docker.

use std::collections::BTreeMap;

use crate::render::CONFIGS_LABEL;

/// The image that upstream uses for both stages.
pub const DEFAULT_IMAGE: &str = "quay.io/operator-framework/opm:latest";

/// Writes it.
pub fn dockerfile(directory: &str, builder: &str, base: &str, labels: &BTreeMap<String, String>) -> String {
    let mut out = format!(
        "# The builder image is expected to contain\n\
         # /bin/opm (with serve subcommand)\n\
         FROM {builder} as builder\n\
         \n\
         # Copy FBC root into image at /configs and pre-populate serve cache\n\
         ADD {directory} /configs\n\
         RUN [\"/bin/opm\", \"serve\", \"/configs\", \"--cache-dir=/tmp/cache\", \"--cache-only\"]\n\
         \n\
         FROM {base}\n"
    );
    out.push_str(if base == "scratch" {
        "# OLMv0 CatalogSources that use binary-less images must set:\n\
         # spec:\n\
         #   grpcPodConfig:\n\
         #     extractContent:\n\
         #       catalogDir: /configs\n\
         #       cacheDir: /tmp/cache\n"
    } else {
        "# The base image is expected to contain\n\
         # /bin/opm (with serve subcommand) and /bin/grpc_health_probe\n\
         \n\
         # Configure the entrypoint and command\n\
         ENTRYPOINT [\"/bin/opm\"]\n\
         CMD [\"serve\", \"/configs\", \"--cache-dir=/tmp/cache\"]\n"
    });
    out.push_str(&format!(
        "\n\
         COPY --from=builder /configs /configs\n\
         COPY --from=builder /tmp/cache /tmp/cache\n\
         \n\
         # Set FBC-specific label for the location of the FBC root directory\n\
         # in the image\n\
         LABEL {CONFIGS_LABEL}=/configs\n"
    ));
    if !labels.is_empty() {
        out.push_str("\n# Set other custom labels\n");
        labels.iter().for_each(|(key, value)| out.push_str(&format!("LABEL \"{key}\"=\"{value}\"\n")));
    }
    out
}
