//! DNS messages written by hand, for servers that do what no real one does.

use std::net::{SocketAddr, UdpSocket};

use anyhow::Result;

pub(crate) const A: u16 = 1;
pub(crate) const NS: u16 = 2;
pub(crate) const CNAME: u16 = 5;
pub(crate) const SOA: u16 = 6;
pub(crate) const TXT: u16 = 16;
pub(crate) const NXDOMAIN: u8 = 3;
const CLASS_IN: u16 = 1;

/// Answers datagrams until the process ends.
pub(crate) fn serve(
    listen: SocketAddr,
    answer: impl Fn(&[u8], SocketAddr) -> Option<Vec<u8>> + Send + 'static,
) -> Result<()> {
    let socket = UdpSocket::bind(listen)?;
    std::thread::Builder::new().name(format!("dns {listen}")).spawn(move || {
        let mut buffer = vec![0; 65_535];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            if let Some(packet) = buffer.get(..length).and_then(|question| answer(question, from)) {
                let _ = socket.send_to(&packet, from);
            }
        }
    })?;
    Ok(())
}

/// An answer under construction.
pub(crate) struct Reply {
    /// The question's header and question, without what else came.
    pub(crate) question: Vec<u8>,
    /// The name asked for, in wire form.
    pub(crate) name: Vec<u8>,
    pub(crate) rtype: u16,
    pub(crate) code: u8,
    pub(crate) authoritative: bool,
    pub(crate) truncated: bool,
    answers: (u16, Vec<u8>),
    authorities: (u16, Vec<u8>),
}

impl Reply {
    pub(crate) fn to(question: &[u8]) -> Option<Self> {
        let mut end = 12;
        while let Some(length @ 1..=63) = question.get(end) {
            end += usize::from(*length) + 1;
        }
        let name = question.get(12..=end)?.to_vec();
        let rtype = u16::from_be_bytes(*question.get(end + 1..end + 3)?.first_chunk()?);
        Some(Self {
            question: question.get(..end + 5)?.to_vec(),
            name,
            rtype,
            code: 0,
            authoritative: true,
            truncated: false,
            answers: (0, Vec::new()),
            authorities: (0, Vec::new()),
        })
    }

    pub(crate) fn first_label(&self) -> String {
        let length = self.name.first().map_or(0, |length| usize::from(*length));
        let label = self.name.get(1..=length).unwrap_or_default();
        String::from_utf8_lossy(label).to_lowercase()
    }

    pub(crate) fn answer(&mut self, owner: &[u8], rtype: u16, data: &[u8]) {
        add(&mut self.answers, owner, rtype, data);
    }

    pub(crate) fn authority(&mut self, owner: &[u8], rtype: u16, data: &[u8]) {
        add(&mut self.authorities, owner, rtype, data);
    }

    pub(crate) fn message(self) -> Vec<u8> {
        let mut message = self.question;
        let flags = 0x80 | (u8::from(self.authoritative) << 2) | (u8::from(self.truncated) << 1);
        if let Some(header) = message.get_mut(2..12) {
            header.copy_from_slice(&[flags, self.code, 0, 1, 0, 0, 0, 0, 0, 0]);
        }
        for (at, (count, _)) in [(6, &self.answers), (8, &self.authorities)] {
            if let Some(field) = message.get_mut(at..at + 2) {
                field.copy_from_slice(&count.to_be_bytes());
            }
        }
        message.extend(self.answers.1);
        message.extend(self.authorities.1);
        message
    }
}

fn add((count, bytes): &mut (u16, Vec<u8>), owner: &[u8], rtype: u16, data: &[u8]) {
    *count += 1;
    bytes.extend_from_slice(owner);
    for field in [rtype, CLASS_IN, 0, 300, u16::try_from(data.len()).unwrap_or(u16::MAX)] {
        bytes.extend_from_slice(&field.to_be_bytes());
    }
    bytes.extend_from_slice(data);
}

/// A name in wire form.
pub(crate) fn name(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() + 2);
    for label in text.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap_or(0));
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

pub(crate) fn soa() -> Vec<u8> {
    let mut data = name("hostile.op-c.net");
    data.extend(name("hostmaster.hostile.com"));
    for field in [1_u32, 7200, 1800, 1_209_600, 300] {
        data.extend_from_slice(&field.to_be_bytes());
    }
    data
}
