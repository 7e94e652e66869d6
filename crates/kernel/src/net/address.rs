//! Which addresses need `net:private`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is. Private means that reaching it needs `net:private` (kernel contract 6.3, egress contract 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Globally reachable.
    Public,
    /// Anything else, and the block it lies in.
    Private(Block),
}

/// The name of a block of addresses that are not public.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block(&'static str);

impl Block {
    /// The block's name, such as `loopback`.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// IPv4 blocks: network, prefix length, name. The longest prefix wins; no name means public.
const V4: &[([u8; 4], u32, &str)] = &[
    ([168, 63, 129, 16], 32, "cloud-metadata"),
    ([255, 255, 255, 255], 32, "broadcast"),
    ([192, 0, 0, 0], 24, "ietf-protocol"),
    ([192, 0, 2, 0], 24, "documentation"),
    ([198, 51, 100, 0], 24, "documentation"),
    ([203, 0, 113, 0], 24, "documentation"),
    ([192, 88, 99, 0], 24, "6to4-relay"),
    ([192, 168, 0, 0], 16, "private-use"),
    ([169, 254, 0, 0], 16, "link-local"),
    ([198, 18, 0, 0], 15, "benchmarking"),
    ([172, 16, 0, 0], 12, "private-use"),
    ([100, 64, 0, 0], 10, "shared"),
    ([0, 0, 0, 0], 8, "this-network"),
    ([10, 0, 0, 0], 8, "private-use"),
    ([127, 0, 0, 0], 8, "loopback"),
    ([224, 0, 0, 0], 4, "multicast"),
    ([240, 0, 0, 0], 4, "reserved"),
];

/// IPv6 blocks in the order in which they are looked at: the first that holds the address names it.
const V6: &[([u16; 8], u32, &str)] = &[
    ([0, 0, 0, 0, 0, 0, 0, 0], 128, "unspecified"),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, "loopback"),
    ([0, 0, 0, 0, 0, 0, 0, 0], 96, "ipv4-compatible"),
    ([0, 0, 0, 0, 0xffff, 0, 0, 0], 96, "ipv4-translated"),
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, "nat64-local"),
    ([0x100, 0, 0, 0, 0, 0, 0, 0], 64, "discard"),
    ([0x100, 0, 0, 1, 0, 0, 0, 0], 64, "dummy"),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, "teredo"),
    ([0x2001, 2, 0, 0, 0, 0, 0, 0], 48, "benchmarking"),
    ([0x2001, 0x10, 0, 0, 0, 0, 0, 0], 28, "orchid"),
    ([0x2001, 0x20, 0, 0, 0, 0, 0, 0], 28, "orchid"),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, "ietf-protocol"),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, "documentation"),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, "documentation"),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, "6to4"),
    ([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16, "srv6"),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, "unique-local"),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, "link-local"),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, "site-local"),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, "multicast"),
];

/// Classifies an address. An IPv4-mapped address is the IPv4 address in it; a NAT64 one is classified by the IPv4 address
/// in it; every other embedding is private as a whole.
///
/// ```
/// use flowcell_kernel::net::{Class, classify};
/// # fn main() -> Result<(), std::net::AddrParseError> {
/// assert_eq!(classify("93.184.216.34".parse()?), Class::Public);
/// assert!(matches!(classify("::ffff:169.254.169.254".parse()?), Class::Private(block) if block.as_str() == "link-local"));
/// # Ok(())
/// # }
/// ```
pub fn classify(address: IpAddr) -> Class {
    match address {
        IpAddr::V4(address) => v4(address),
        IpAddr::V6(address) => v6(address),
    }
}

fn v4(address: Ipv4Addr) -> Class {
    let bits = address.to_bits();
    V4.iter()
        .find(|(network, prefix, _)| (bits ^ u32::from_be_bytes(*network)) >> (32 - prefix) == 0)
        .map_or(Class::Public, |(_, _, name)| Class::Private(Block(name)))
}

fn v6(address: Ipv6Addr) -> Class {
    if let Some(mapped) = address.to_ipv4_mapped() {
        return v4(mapped);
    }
    let bits = address.to_bits();
    let [a, b, c, d, e, f, g, h] = address.segments();
    if [a, b, c, d, e, f] == [0x64, 0xff9b, 0, 0, 0, 0] {
        let [g1, g2] = g.to_be_bytes();
        let [h1, h2] = h.to_be_bytes();
        return v4(Ipv4Addr::new(g1, g2, h1, h2));
    }
    let block = V6.iter().find(|(network, prefix, _)| {
        let [a, b, c, d, e, f, g, h] = *network;
        let network = Ipv6Addr::new(a, b, c, d, e, f, g, h).to_bits();
        (bits ^ network) >> (128 - prefix) == 0
    });
    if let Some((_, _, name)) = block {
        return Class::Private(Block(name));
    }
    if a & 0xe000 != 0x2000 {
        return Class::Private(Block("not-global-unicast"));
    }
    if matches!(e, 0 | 0x200) && f == 0x5efe {
        return Class::Private(Block("isatap"));
    }
    Class::Public
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_of_the_tables_has_its_name_and_its_neighbours_do_not() {
        for (text, block) in [
            ("0.0.0.0", "this-network"),
            ("0.255.255.255", "this-network"),
            ("1.0.0.0", ""),
            ("9.255.255.255", ""),
            ("10.0.0.0", "private-use"),
            ("11.0.0.0", ""),
            ("100.63.255.255", ""),
            ("100.64.0.0", "shared"),
            ("100.100.100.200", "shared"),
            ("100.128.0.0", ""),
            ("127.0.0.1", "loopback"),
            ("128.0.0.0", ""),
            ("168.63.129.15", ""),
            ("168.63.129.16", "cloud-metadata"),
            ("169.254.169.254", "link-local"),
            ("172.15.255.255", ""),
            ("172.16.0.0", "private-use"),
            ("172.31.255.255", "private-use"),
            ("172.32.0.0", ""),
            ("192.0.0.9", "ietf-protocol"),
            ("192.0.1.0", ""),
            ("192.0.2.1", "documentation"),
            ("192.31.196.1", ""),
            ("192.52.193.1", ""),
            ("192.88.99.1", "6to4-relay"),
            ("192.168.1.1", "private-use"),
            ("192.175.48.1", ""),
            ("198.17.255.255", ""),
            ("198.18.0.0", "benchmarking"),
            ("198.19.255.255", "benchmarking"),
            ("198.51.100.7", "documentation"),
            ("203.0.113.7", "documentation"),
            ("223.255.255.255", ""),
            ("224.0.0.1", "multicast"),
            ("240.0.0.1", "reserved"),
            ("255.255.255.254", "reserved"),
            ("255.255.255.255", "broadcast"),
            ("::", "unspecified"),
            ("::1", "loopback"),
            ("::7f00:1", "ipv4-compatible"),
            ("::ffff:10.0.0.1", "private-use"),
            ("::ffff:8.8.8.8", ""),
            ("::ffff:0:8.8.8.8", "ipv4-translated"),
            ("64:ff9b::8.8.8.8", ""),
            ("64:ff9b::10.1.2.3", "private-use"),
            ("64:ff9b:1::8.8.8.8", "nat64-local"),
            ("64:ff9b:0:1::8.8.8.8", "not-global-unicast"),
            ("100::1", "discard"),
            ("100:0:0:1::1", "dummy"),
            ("100:0:0:2::1", "not-global-unicast"),
            ("2001::1", "teredo"),
            ("2001:1::1", "ietf-protocol"),
            ("2001:2::1", "benchmarking"),
            ("2001:2:1::1", "ietf-protocol"),
            ("2001:10::1", "orchid"),
            ("2001:2f::1", "orchid"),
            ("2001:1ff::1", "ietf-protocol"),
            ("2001:200::1", ""),
            ("2001:db8::1", "documentation"),
            ("2002:7f00:1::", "6to4"),
            ("2606:4700:4700::1111", ""),
            ("2606:4700::5efe:a01:203", "isatap"),
            ("2606:4700::200:5efe:a01:203", "isatap"),
            ("2620:4f:8000::1", ""),
            ("3fff::1", "documentation"),
            ("3fff:1000::1", ""),
            ("4000::1", "not-global-unicast"),
            ("5f00::1", "srv6"),
            ("fc00::1", "unique-local"),
            ("fd00:ec2::254", "unique-local"),
            ("fe80::1", "link-local"),
            ("fec0::1", "site-local"),
            ("ff02::1", "multicast"),
        ] {
            let found = match classify(text.parse().unwrap()) {
                Class::Public => "",
                Class::Private(block) => block.as_str(),
            };
            assert_eq!(found, block, "{text}");
        }
    }
}
