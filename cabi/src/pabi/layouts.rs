//! The versions of the private provider interface, as data: everything that depends on the version
//! follows from [`LAYOUTS`].
//!
//! The number of the interface (`IBVERBS_PRIVATE_NN`) does not fix the tables: new operations have
//! come without a new number. Such versions are told apart by the public functions that came along.
//! Facts are rdma-core's `libibverbs/driver.h`, `libibverbs/verbs.h` and
//! `libibverbs/libibverbs.map.in` at the tags; every release from v33.0 on is in one of the rows.

use crate::Op;
use crate::pabi::Operations;
use std::ffi::CStr;
use std::fmt;

/// What a version of rdma-core added to the interface. A new one is one more row at the end of
/// [`LAYOUTS`].
#[derive(Debug)]
pub struct Layout {
    /// The first rdma-core that has it.
    pub first: u32,
    /// The number in `verbs_register_driver_NN`, and in the names of drivers (`-rdmavNN.so`).
    pub number: u32,
    /// A public function that libraries of this number have from this version on.
    pub mark: &'static CStr,
    /// The operations that are new. Upstream keeps `struct verbs_context_ops` in alphabetical
    /// order.
    pub operations: &'static [&'static str],
    /// How many pointers `struct verbs_context` has grown at its head.
    pub context_head: usize,
    /// The functions appended to `struct ibv_qp_ex`, which move `comp_mask` of `struct verbs_qp`.
    pub qp_functions: &'static [&'static str],
}

/// Every version, oldest first. Nothing has been taken away since the first of them.
pub static LAYOUTS: &[Layout] = &[
    Layout {
        first: 33,
        number: 33,
        mark: c"_ibv_query_gid_ex",
        operations: &[
            "advise_mr",
            "alloc_dm",
            "alloc_mw",
            "alloc_null_mr",
            "alloc_parent_domain",
            "alloc_pd",
            "alloc_td",
            "async_event",
            "attach_counters_point_flow",
            "attach_mcast",
            "bind_mw",
            "close_xrcd",
            "cq_event",
            "create_ah",
            "create_counters",
            "create_cq",
            "create_cq_ex",
            "create_flow",
            "create_flow_action_esp",
            "create_qp",
            "create_qp_ex",
            "create_rwq_ind_table",
            "create_srq",
            "create_srq_ex",
            "create_wq",
            "dealloc_mw",
            "dealloc_pd",
            "dealloc_td",
            "dereg_mr",
            "destroy_ah",
            "destroy_counters",
            "destroy_cq",
            "destroy_flow",
            "destroy_flow_action",
            "destroy_qp",
            "destroy_rwq_ind_table",
            "destroy_srq",
            "destroy_wq",
            "detach_mcast",
            "free_context",
            "free_dm",
            "get_srq_num",
            "import_mr",
            "import_pd",
            "modify_cq",
            "modify_flow_action_esp",
            "modify_qp",
            "modify_qp_rate_limit",
            "modify_srq",
            "modify_wq",
            "open_qp",
            "open_xrcd",
            "poll_cq",
            "post_recv",
            "post_send",
            "post_srq_ops",
            "post_srq_recv",
            "query_device_ex",
            "query_ece",
            "query_port",
            "query_qp",
            "query_rt_values",
            "query_srq",
            "read_counters",
            "reg_dm_mr",
            "reg_mr",
            "req_notify_cq",
            "rereg_mr",
            "resize_cq",
            "set_ece",
            "unimport_mr",
            "unimport_pd",
        ],
        context_head: 0,
        qp_functions: &[],
    },
    Layout {
        first: 34,
        number: 34,
        mark: c"ibv_reg_dmabuf_mr",
        operations: &["reg_dmabuf_mr"],
        context_head: 0,
        qp_functions: &[],
    },
    Layout {
        first: 35,
        number: 34,
        mark: c"ibv_import_dm",
        operations: &["import_dm", "unimport_dm"],
        context_head: 0,
        qp_functions: &[],
    },
    Layout {
        first: 36,
        number: 34,
        mark: c"ibv_query_qp_data_in_order",
        operations: &["query_qp_data_in_order"],
        context_head: 0,
        qp_functions: &[],
    },
    Layout {
        first: 44,
        number: 34,
        mark: c"ibv_query_qp_data_in_order",
        operations: &[],
        context_head: 0,
        qp_functions: &["wr_atomic_write"],
    },
    Layout {
        first: 45,
        number: 34,
        mark: c"ibv_query_qp_data_in_order",
        operations: &[],
        context_head: 0,
        qp_functions: &["wr_flush"],
    },
    Layout {
        first: 57,
        number: 57,
        mark: c"ibv_query_qp_data_in_order",
        operations: &[],
        context_head: 0,
        qp_functions: &[],
    },
    Layout {
        first: 59,
        number: 59,
        mark: c"ibv_reg_mr_ex",
        operations: &["alloc_dmah", "dealloc_dmah", "reg_mr_ex"],
        context_head: 3,
        qp_functions: &[],
    },
    Layout {
        first: 62,
        number: 59,
        mark: c"ibv_query_port_speed",
        operations: &["dm_export_dmabuf_fd", "query_port_speed"],
        context_head: 1,
        qp_functions: &[],
    },
    Layout {
        first: 64,
        number: 64,
        mark: c"ibv_alloc_buf",
        operations: &["alloc_buf", "free_buf"],
        context_head: 2,
        qp_functions: &[],
    },
    Layout {
        first: 65,
        number: 65,
        mark: c"ibv_create_comp_cntr",
        operations: &[
            "create_comp_cntr",
            "destroy_comp_cntr",
            "inc_comp_cntr",
            "inc_err_comp_cntr",
            "qp_attach_comp_cntr",
            "query_comp_cntr_caps",
            "read_comp_cntr",
            "read_err_comp_cntr",
            "set_comp_cntr",
            "set_err_comp_cntr",
        ],
        context_head: 0,
        qp_functions: &[],
    },
];

/// How many pointers `struct verbs_context` has at its head in the newest version, beyond
/// [`crate::verbs_context`].
pub const CONTEXT_HEAD_MAX: usize = {
    let (mut sum, mut row) = (0, 0);
    while row < LAYOUTS.len() {
        sum += LAYOUTS[row].context_head;
        row += 1;
    }
    sum
};

/// The numbers for which there are layouts, each once, in ascending order.
pub fn numbers() -> impl Iterator<Item = u32> {
    let mut last = None;
    LAYOUTS
        .iter()
        .map(|layout| layout.number)
        .filter(move |number| last.replace(*number) != Some(*number))
}

/// The file name of the driver that a libibverbs of this number loads for `path` in
/// `RDMAV_DRIVERS`.
pub fn driver_file(path: &str, number: u32) -> String {
    format!("{path}-rdmav{number}.so")
}

impl Layout {
    /// This version and all before it.
    fn history(&self) -> impl Iterator<Item = &'static Layout> {
        let first = self.first;
        LAYOUTS.iter().filter(move |layout| layout.first <= first)
    }

    /// All operations of this version in the order of its `struct verbs_context_ops`.
    pub fn operations(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self
            .history()
            .flat_map(|layout| layout.operations.iter().copied())
            .collect();
        names.sort_unstable();
        names
    }

    /// The table that this version's `verbs_set_ops` takes, with what is offered.
    pub fn table(&self, offered: &Operations) -> Box<[Op]> {
        let names = self.operations();
        names.into_iter().map(|name| offered.slot(name)).collect()
    }

    /// How many pointers stand before [`crate::verbs_context`] in this version's.
    pub fn context_head(&self) -> usize {
        self.history().map(|layout| layout.context_head).sum()
    }

    /// The offset in bytes of `comp_mask` in `struct verbs_qp`.
    pub fn qp_mask(&self) -> usize {
        let added: usize = self.history().map(|layout| layout.qp_functions.len()).sum();
        QP_MASK_FIRST + added * size_of::<Op>()
    }
}

/// The offset of `comp_mask` in the oldest `struct verbs_qp`: it follows `struct ibv_qp_ex`, the
/// last function of which was then `wr_abort`.
pub const QP_MASK_FIRST: usize = std::mem::offset_of!(crate::ibv_qp_ex, wr_abort) + size_of::<Op>();

/// A libibverbs that can be served.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// Its version.
    pub layout: &'static Layout,
    /// The offset in bytes of `comp_mask` in its `struct verbs_qp`.
    pub qp_mask: usize,
}

/// A libibverbs that cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unserved {
    /// The number of its interface, if it has one at all.
    pub number: Option<u32>,
}

/// What a libibverbs is like, by what can be seen of it.
///
/// `has` says whether the library has a function; `qp_mask` says where its `ibv_qp_to_qp_ex(3)`
/// looks for `comp_mask`, in bytes from the start of a queue pair, if that could be found.
pub fn recognise(
    has: impl Fn(&CStr) -> bool,
    qp_mask: impl FnOnce() -> Option<usize>,
) -> Result<Served, Unserved> {
    let number = number(&has);
    let unserved = Unserved { number };
    let fitting: Vec<_> = LAYOUTS
        .iter()
        .rev()
        .filter(|layout| Some(layout.number) == number && has(layout.mark))
        .collect();
    if fitting.is_empty() {
        return Err(unserved);
    }

    let qp_mask = qp_mask().ok_or(unserved)?;

    // A function may yet be appended to `struct ibv_qp_ex` without any other sign, as it was in v44
    // and v45.
    fitting
        .into_iter()
        .find(|layout| layout.qp_mask() <= qp_mask)
        .map(|layout| Served { layout, qp_mask })
        .ok_or(unserved)
}

/// The number of a library's interface, known or not.
fn number(has: impl Fn(&CStr) -> bool) -> Option<u32> {
    // Far beyond today's: the number is that of an rdma-core release, of which there are four a
    // year.
    const HIGHEST: u32 = 255;
    (1..=HIGHEST).rev().find(|number| {
        let name = std::ffi::CString::new(format!("{REGISTER_DRIVER}{number}"));
        name.is_ok_and(|name| has(&name))
    })
}

/// The name of the function by which a provider registers, without its number.
pub const REGISTER_DRIVER: &str = "verbs_register_driver_";

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "private ABI {}", self.number)
    }
}

impl fmt::Display for Unserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            Some(number) if numbers().any(|known| known == number) => {
                write!(f, "a variant of private ABI {number} that is not known")?;
            }
            Some(number) => write!(f, "private ABI {number}")?,
            None => f.write_str("no private ABI")?,
        }
        f.write_str("; supported are ")?;
        for (place, number) in numbers().enumerate() {
            let separator = if place == 0 { "" } else { ", " };
            write!(f, "{separator}{number}")?;
        }
        let (first, last) = (LAYOUTS[0].first, LAYOUTS[LAYOUTS.len() - 1].first);
        write!(f, " (rdma-core {first} to {last})")
    }
}
