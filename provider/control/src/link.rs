//! What a network interface amounts to as an RDMA port: path MTU, and width and speed in the terms
//! of `ibv_port_attr`. The rules are those of the Linux kernel's RoCE devices, so that both ends of
//! a mixed pair choose alike.

/// Room that the kernel's RoCE devices leave for headers in every packet, in bytes: GRH (or an IPv6
/// header) 40, UDP 8, BTH 12, XRCETH 4, AtomicETH 28, ICRC 4.
pub const HEADERS: u32 = 96;

/// The largest path MTU (256, 512, 1024, 2048 or 4096 bytes of payload) whose packets fit an
/// interface MTU given in bytes. Never less than 256, the smallest there is.
pub fn active_mtu(netdev_mtu: u32) -> u32 {
    let room = netdev_mtu.saturating_sub(HEADERS);
    [4096, 2048, 1024, 512]
        .into_iter()
        .find(|&mtu| mtu <= room)
        .unwrap_or(256)
}

/// A port's width and speed as `ibv_port_attr` and sysfs's `rate` express them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// `active_width`: 1 = 1X, 2 = 4X, 4 = 8X, 8 = 12X.
    pub width: u8,
    /// `active_speed`: 1 = SDR, 2 = DDR, 4 = QDR, 8 = FDR10, 16 = FDR, 32 = EDR, 64 = HDR.
    pub speed: u8,
    /// Tenths of Gb/s.
    pub tenths_gbps: u32,
    /// The generation's name as sysfs writes it.
    pub name: &'static str,
}

impl Rate {
    /// The rate that stands for a link of so many Mb/s.
    pub fn of_mbps(mbps: u32) -> Self {
        let (width, speed, tenths_gbps, name) = match mbps {
            0..=1_000 => (1, 1, 25, "SDR"),
            1_001..=10_000 => (1, 8, 100, "FDR10"),
            10_001..=20_000 => (2, 2, 200, "DDR"),
            20_001..=25_000 => (1, 32, 250, "EDR"),
            25_001..=40_000 => (2, 8, 400, "FDR10"),
            40_001..=50_000 => (1, 64, 500, "HDR"),
            50_001..=100_000 => (2, 32, 1_000, "EDR"),
            _ => (2, 64, 2_000, "HDR"),
        };

        Self {
            width,
            speed,
            tenths_gbps,
            name,
        }
    }

    /// The rate of an InfiniBand link, from the codes of `ibv_port_attr`.
    pub fn of_link(width: u8, speed: u8) -> Self {
        let lanes = lanes(width);
        let (tenths_per_lane, name) = match speed {
            2 => (50, "DDR"),
            4 => (100, "QDR"),
            8 => (100, "FDR10"),
            16 => (140, "FDR"),
            32 => (250, "EDR"),
            64 => (500, "HDR"),
            _ => (25, "SDR"),
        };

        Self {
            width,
            speed,
            tenths_gbps: tenths_per_lane * lanes,
            name,
        }
    }

    /// The text of sysfs's `ports/1/rate`, such as `2.5 Gb/sec (1X SDR)`.
    pub fn sysfs(&self) -> String {
        let lanes = lanes(self.width);
        let (whole, tenth) = (self.tenths_gbps / 10, self.tenths_gbps % 10);
        let fraction = if tenth > 0 {
            format!(".{tenth}")
        } else {
            String::new()
        };
        format!("{whole}{fraction} Gb/sec ({lanes}X {})", self.name)
    }
}

/// How many lanes a code of `active_width` stands for.
fn lanes(width: u8) -> u32 {
    match width {
        1 => 1,
        2 => 4,
        4 => 8,
        16 => 2,
        _ => 12,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mtus_follow_the_kernel() {
        for (netdev, active) in [
            (0, 256),
            (576, 256),
            (1280, 1024),
            (1500, 1024),
            (2143, 1024),
            (2144, 2048),
            (4191, 2048),
            (4192, 4096),
            (9000, 4096),
            (65_536, 4096),
        ] {
            assert_eq!(active_mtu(netdev), active, "interface MTU {netdev}");
        }
    }

    #[test]
    fn rates_read_as_in_sysfs() {
        assert_eq!(Rate::of_mbps(1_000).sysfs(), "2.5 Gb/sec (1X SDR)");
        assert_eq!(Rate::of_mbps(10_000).sysfs(), "10 Gb/sec (1X FDR10)");
        assert_eq!(Rate::of_mbps(40_000).sysfs(), "40 Gb/sec (4X FDR10)");
        assert_eq!(Rate::of_mbps(100_000).sysfs(), "100 Gb/sec (4X EDR)");
        assert_eq!(Rate::of_link(2, 32).sysfs(), "100 Gb/sec (4X EDR)");
        assert_eq!(Rate::of_link(2, 16).sysfs(), "56 Gb/sec (4X FDR)");
        assert_eq!(Rate::of_link(1, 1).sysfs(), "2.5 Gb/sec (1X SDR)");
    }
}
