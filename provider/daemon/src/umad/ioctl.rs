//! What programs ask of their files by ioctl: agents come and go.

use ferroce_cabi::umad::{
    IB_USER_MAD_ENABLE_PKEY, IB_USER_MAD_REG_FLAGS_CAP, IB_USER_MAD_REGISTER_AGENT,
    IB_USER_MAD_REGISTER_AGENT2, IB_USER_MAD_UNREGISTER_AGENT, IB_USER_MAD_USER_RMPP,
    ib_user_mad_reg_req, ib_user_mad_reg_req2,
};
use rustix::io::Errno;
use zerocopy::{FromBytes, IntoBytes};

use super::agents::Registration;
use super::server::{Answer, Refusal, Server};

impl Server {
    /// Carries out an ioctl of a program's file.
    pub(super) fn ioctl(&mut self, inode: u64, number: u64, argument: &[u8]) -> Answer {
        let file = self.files.get_mut(&inode).ok_or(Errno::BADF)?;
        match number {
            IB_USER_MAD_ENABLE_PKEY => {
                if file.used {
                    return Err(Errno::INVAL.into());
                }
                file.pkeys = true;
                Ok(Vec::new())
            }
            IB_USER_MAD_REGISTER_AGENT => {
                let mut request =
                    ib_user_mad_reg_req::read_from_bytes(argument).map_err(|_| Errno::FAULT)?;
                let mask = request.method_mask.iter().rev();
                let wants = Registration {
                    port: file.port,
                    qpn: request.qpn,
                    class: request.mgmt_class,
                    version: request.mgmt_class_version,
                    oui: request.oui,
                    methods: mask.fold(0, |mask, word| mask << 32 | u128::from(*word)),
                    rmpp: request.rmpp_version,
                    user_rmpp: false,
                };

                request.id = self.register(inode, wants)?;
                Ok(request.as_bytes().to_vec())
            }
            IB_USER_MAD_REGISTER_AGENT2 => {
                let mut request =
                    ib_user_mad_reg_req2::read_from_bytes(argument).map_err(|_| Errno::FAULT)?;
                if request.qpn > 1 {
                    return Err(Errno::INVAL.into());
                }

                if request.flags & !IB_USER_MAD_REG_FLAGS_CAP != 0 {
                    request.flags = IB_USER_MAD_REG_FLAGS_CAP;
                    return Err(Refusal {
                        errno: Errno::INVAL,
                        bytes: request.as_bytes().to_vec(),
                    });
                }

                // Without a class nothing unsolicited comes, and nobody asks for whose.
                let [too_much, oui @ ..] = request.oui.to_be_bytes();
                if request.mgmt_class != 0 && too_much != 0 {
                    return Err(Errno::INVAL.into());
                }

                let [low, high] = request.method_mask;
                let wants = Registration {
                    port: file.port,
                    qpn: request.qpn as u8,
                    class: request.mgmt_class,
                    version: request.mgmt_class_version,
                    oui,
                    methods: u128::from(high) << 64 | u128::from(low),
                    rmpp: request.rmpp_version,
                    user_rmpp: request.flags & IB_USER_MAD_USER_RMPP != 0,
                };

                let used = file.used;
                request.id = self.register(inode, wants)?;
                if !used && let Some(file) = self.files.get_mut(&inode) {
                    file.pkeys = true;
                }
                Ok(request.as_bytes().to_vec())
            }
            IB_USER_MAD_UNREGISTER_AGENT => {
                let id = u32::read_from_bytes(argument).map_err(|_| Errno::FAULT)?;
                let slot = file.agents.get_mut(id as usize).ok_or(Errno::INVAL)?;
                let agent = slot.take().ok_or(Errno::INVAL)?;
                self.agents.remove(agent);
                self.exchanges.remove(agent);
                Ok(Vec::new())
            }
            _ => Err(Errno::NOTTY.into()),
        }
    }

    fn register(&mut self, inode: u64, wants: Registration) -> Result<u32, Errno> {
        let file = self.files.get_mut(&inode).ok_or(Errno::BADF)?;
        let id = file
            .agents
            .iter()
            .position(Option::is_none)
            .ok_or(Errno::NOMEM)?;
        let agent = self.agents.register(inode, id as u32, wants)?;
        file.agents[id] = Some(agent);
        file.used = true;
        Ok(id as u32)
    }
}
