//! What is done with an SMP that has arrived where it should.

use super::port_info;
use super::types::{Envelope, Output, PortEvent};
use super::{Node, Time};
use crate::gsi::{self, Class};
use ferroce_wire::mad::{BASE_VERSION, Mad, MadHeader};
use ferroce_wire::smp::{self, Data, LedInfo, NodeInfo, VendorDiag, attribute, method, status};

/// What the agent takes.
const CLASS: Class = Class {
    version: smp::CLASS_VERSION,
    methods: &[method::GET, method::SET, method::TRAP, method::TRAP_REPRESS],
};

/// A Get or Set under way.
pub(super) struct Request {
    pub(super) now: Time,
    /// The port that received it.
    pub(super) port: u8,
    pub(super) is_set: bool,
    pub(super) m_key: u64,
    pub(super) modifier: u32,
    /// A port that is to go down, once its answer is on the way, and the physical state to take.
    pub(super) down: Option<(u8, u8)>,
}

/// The status of an answer that is not good.
pub(super) type Refusal = u16;

impl Node {
    /// An SMP for this node: the agent's own business, or that of local programs.
    pub(super) fn process(
        &mut self,
        now: Time,
        port: u8,
        from: Envelope,
        smp: &mut Mad,
        out: &mut impl Output,
    ) {
        let header = MadHeader::parse(smp).expect("a whole MAD");
        if header.method & method::RESPONSE != 0 {
            return self.deliver(port, from, smp, out);
        }

        if let Err(status) = CLASS.check(&header) {
            if gsi::is_asked(&header) {
                return self.reply(port, from, smp, status, out);
            }
            self.counters.dropped += 1;
            return;
        }

        match header.method {
            method::GET | method::SET if header.attribute == attribute::SM_INFO => {
                if self.is_sm(port) {
                    self.deliver(port, from, smp, out);
                } else {
                    self.reply(port, from, smp, status::UNSUPPORTED_ATTRIBUTE, out);
                }
            }
            method::GET | method::SET => {
                if self.check_m_key(now, port, from, &header, smp, out) {
                    let mut request = Request {
                        now,
                        port,
                        is_set: header.method == method::SET,
                        m_key: smp::m_key(smp),
                        modifier: header.modifier,
                        down: None,
                    };

                    let result =
                        self.attribute(&mut request, header.attribute, smp::data_mut(smp), out);
                    let status = result.err().unwrap_or(0);
                    if status != 0 && header.attribute == attribute::PORT_INFO {
                        port_info::no_reregistration(smp::data_mut(smp));
                    }

                    self.reply(port, from, smp, status, out);
                    if let Some((number, physical)) = request.down {
                        self.take_down(number, physical, out);
                    }
                }
            }
            method::TRAP if self.is_sm(port) => self.deliver(port, from, smp, out),
            method::TRAP => self.counters.dropped += 1,
            // Not answered (o14-3).
            method::TRAP_REPRESS => {
                if self.check_m_key(now, port, from, &header, smp, out)
                    && header.attribute == attribute::NOTICE
                {
                    self.key_port_mut(port).traps.repress(header.tid);
                }
            }
            // What else the class has was refused above.
            _ => self.counters.dropped += 1,
        }
    }

    /// Carries out a Get or Set; `data` becomes what is answered. If it is refused nothing has
    /// changed. Which attributes there are, and with which methods: C14-3; what is not there is
    /// said so: C14-31.
    fn attribute(
        &mut self,
        request: &mut Request,
        attribute: u16,
        data: &mut Data,
        out: &mut impl Output,
    ) -> Result<(), Refusal> {
        match attribute {
            attribute::NODE_DESCRIPTION => {
                request.read_only()?.without_modifier()?;
                data.fill(0);
                let name = self.config.description.as_bytes();
                data[..name.len()].copy_from_slice(name);
                Ok(())
            }
            attribute::NODE_INFO => {
                request.read_only()?.without_modifier()?;
                self.node_info(request.port).emit(data);
                Ok(())
            }
            attribute::PORT_INFO => self.port_info(request, data, out),
            attribute::GUID_INFO => self.guid_info(request, data, out),
            attribute::P_KEY_TABLE => self.p_key_table(request, data, out),
            attribute::SL_TO_VL => self.sl_to_vl(request, data),
            attribute::VL_ARBITRATION => self.vl_arbitration(request, data),
            attribute::SWITCH_INFO => self.switch_info(request, data),
            attribute::LINEAR_FORWARDING => self.linear_forwarding(request, data),
            attribute::MULTICAST_FORWARDING => self.multicast_forwarding(request, data),
            attribute::VENDOR_DIAG => {
                request.read_only()?.without_modifier()?;
                let nothing = VendorDiag {
                    next_index: 0,
                    diag_data: [0; 62],
                };
                nothing.emit(data);
                Ok(())
            }
            attribute::LED_INFO => self.led_info(request, data, out),
            _ => Err(status::UNSUPPORTED_ATTRIBUTE),
        }
    }

    /// NodeInfo as a request by `port` sees it.
    pub fn node_info(&self, port: u8) -> NodeInfo {
        let key_port = self.port(self.key_port(port));
        NodeInfo {
            base_version: BASE_VERSION,
            class_version: smp::CLASS_VERSION,
            node_type: self.config.kind.node_type(),
            num_ports: self.config.ports,
            system_image_guid: self.config.system_image_guid,
            node_guid: self.config.node_guid,
            port_guid: key_port.map_or(0, |port| port.guids[0]),
            partition_cap: self.config.p_keys,
            device_id: self.config.device_id,
            revision: self.config.revision,
            local_port_num: port,
            vendor_id: self.config.vendor_id,
        }
    }

    fn led_info(
        &mut self,
        request: &Request,
        data: &mut Data,
        out: &mut impl Output,
    ) -> Result<(), Refusal> {
        let number = if self.is_switch() {
            u8::try_from(request.modifier).map_err(|_| status::INVALID_VALUE)?
        } else {
            request.without_modifier()?;
            request.port
        };
        let port = self.port_mut(number).ok_or(status::INVALID_VALUE)?;
        if request.is_set {
            let led = LedInfo::parse(data).led_mask;
            if led != port.led {
                port.led = led;
                out.event(number, PortEvent::Led(led));
            }
        }

        let led_mask = port.led;
        LedInfo { led_mask }.emit(data);
        Ok(())
    }

    fn is_sm(&self, port: u8) -> bool {
        self.port(self.key_port(port))
            .is_some_and(super::Port::is_sm)
    }
}

impl Request {
    /// Refuses a Set: there is no such method for this attribute.
    pub(super) fn read_only(&self) -> Result<&Request, Refusal> {
        if self.is_set {
            Err(status::UNSUPPORTED_ATTRIBUTE)
        } else {
            Ok(self)
        }
    }

    /// Refuses a modifier where there is nothing to choose.
    pub(super) fn without_modifier(&self) -> Result<&Request, Refusal> {
        if self.modifier == 0 {
            Ok(self)
        } else {
            Err(status::INVALID_VALUE)
        }
    }
}
