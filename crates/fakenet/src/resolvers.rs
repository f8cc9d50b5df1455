//! The public resolvers: unbound with UDP, TCP, DoT and DoH, validating from the fake root.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::authoritative::wait_for;
use crate::certificates::Authority;
use crate::programs::{Programs, Running};
use crate::signing::Signed;
use crate::world::{self, RESOLVERS};

pub(crate) fn start(
    programs: &Programs,
    directory: &Path,
    authority: &Authority,
    signed: &Signed,
) -> Result<Vec<Running>> {
    fs::write(directory.join("anchor.ds"), format!("{}\n", signed.root_ds()))?;
    let hints: String = world::ROOT_SERVERS
        .iter()
        .flat_map(|(name, addresses)| {
            let ns = format!(". 3600000 NS {name}.\n");
            let lines = addresses.iter().map(move |address| {
                format!("{name}. 3600000 {} {address}\n", if address.contains(':') { "AAAA" } else { "A" })
            });
            std::iter::once(ns).chain(lines)
        })
        .collect();
    fs::write(directory.join("hints"), hints)?;
    let mut running = Vec::new();
    for resolver in RESOLVERS {
        let certificate = authority.issue(directory, resolver.tls_name, &[resolver.tls_name])?;
        let tls = format!(
            "interface: {0}@853\ninterface: {0}@443\ntls-service-key: \"{1}\"\ntls-service-pem: \"{2}\"\ntls-port: 853\nhttps-port: 443\n",
            resolver.address,
            certificate.key_file.display(),
            certificate.chain_file.display()
        );
        let extra = format!("{tls}cache-max-negative-ttl: {}\n{}", resolver.max_negative_ttl, resolver.extra);
        let name = format!("unbound-{}", resolver.name.to_lowercase());
        running.push(start_one(programs, directory, &name, resolver.address, &extra)?);
    }
    // A resolver that somebody has listed as an authoritative server.
    for address in world::addresses_of("open.op-c.net") {
        running.push(start_one(
            programs,
            directory,
            "unbound-open",
            address,
            "access-control: 0.0.0.0/0 allow_snoop\n",
        )?);
    }
    running.push(start_bind(programs, directory, signed)?);
    Ok(running)
}

/// A resolver of another family, as a second opinion.
fn start_bind(programs: &Programs, directory: &Path, signed: &Signed) -> Result<Running> {
    let own = directory.join("named-resolver");
    fs::create_dir_all(&own)?;
    let anchor = signed.anchor()?;
    let config = format!(
        "options {{ directory \"{dir}\"; pid-file none; session-keyfile \"{dir}/session.key\"; listen-on {{ {address}; }}; \
         listen-on-v6 {{ none; }}; recursion yes; allow-recursion {{ any; }}; allow-query {{ any; }}; dnssec-validation yes; \
         empty-zones-enable no; version none; }};\ncontrols {{ }};\n\
         trust-anchors {{ . static-ds {tag} {algorithm} {digest_type} {digest}; }};\n\
         zone \".\" {{ type hint; file \"{hints}\"; }};\n",
        dir = own.display(),
        address = world::SECOND_OPINION,
        tag = anchor["keyTag"],
        algorithm = anchor["algorithm"],
        digest_type = anchor["digestType"],
        digest = anchor["digest"],
        hints = directory.join("hints").display(),
    );
    let file = own.join("named.conf");
    fs::write(&file, config)?;
    programs.start(directory, "named-resolver", "usr/sbin/named", &["-g", "-n", "1", "-c", &file.display().to_string()])
}

pub(crate) fn wait(timeout: Duration) -> Result<()> {
    let deadline = Instant::now() + timeout;
    let open = world::addresses_of("open.op-c.net").iter().copied();
    for address in RESOLVERS.iter().map(|resolver| resolver.address).chain(open).chain([world::SECOND_OPINION]) {
        // The root's SOA: anything of a customer would be in the cache already when a test begins.
        wait_for(address, ".", deadline, |answer| answer.get(3).is_some_and(|flags| flags & 0x0f == 0))?;
    }
    Ok(())
}

fn start_one(programs: &Programs, directory: &Path, name: &str, address: &str, extra: &str) -> Result<Running> {
    let dir = directory.display();
    let config = format!(
        "server:\nverbosity: 1\nusername: \"\"\nchroot: \"\"\ndirectory: \"{dir}\"\npidfile: \"\"\ndo-daemonize: no\nuse-syslog: no\n\
         num-threads: 1\nso-reuseport: no\ninterface: {address}\noutgoing-interface: {address}\nport: 53\nroot-hints: \"{dir}/hints\"\ntrust-anchor-file: \"{dir}/anchor.ds\"\n\
         access-control: 0.0.0.0/0 allow\naccess-control: ::/0 allow\ndo-not-query-localhost: no\nmodule-config: \"validator iterator\"\n\
         nsid: \"ascii_{name}\"\nede: yes\nval-clean-additional: yes\nminimal-responses: yes\nqname-minimisation: no\nhide-version: yes\n{extra}\
         remote-control:\ncontrol-enable: no\n"
    );
    let file = directory.join(format!("{name}.conf"));
    fs::write(&file, config)?;
    programs.start(directory, name, "usr/sbin/unbound", &["-d", "-p", "-c", &file.display().to_string()])
}
