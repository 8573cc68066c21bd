// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What vendors offer for their own adapters beside the verbs: mlx5's DC, packet pacing, steering
// and DevX, EFA's SRD. Programs with a fast path for each ask the libraries of those, which tell a
// foreign device by its provider; ours must be told from theirs, and what is asked of it refused.

#include "endpoint.h"

#include <errno.h>
#include <infiniband/efadv.h>
#include <infiniband/mlx5dv.h>
#include <string.h>

static const struct options defaults;

#define NOTHING(call)                                                                              \
	do {                                                                                       \
		errno = 0;                                                                         \
		CHECK(!(call) && errno == EOPNOTSUPP, "%s: %s", #call, strerror(errno));           \
	} while (0)

static struct ibv_qp_init_attr_ex driver_qp(const struct endpoint *e)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_DRIVER, .send_cq = e->send_cq, .recv_cq = e->recv_cq, .pd = e->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD, .cap = {.max_send_wr = 1, .max_send_sge = 1},
	};
}

static void mlx5(void)
{
	struct endpoint *e = open_endpoint(&defaults);
	struct ibv_context *c = e->context;
	struct mlx5dv_context attr = {.comp_mask = UINT64_MAX};
	struct mlx5dv_qp_init_attr dc = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC, .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCI},
	};
	struct ibv_qp_init_attr_ex of_qp = driver_qp(e);
	struct ibv_cq_init_attr_ex of_cq = {.cqe = 4};
	struct mlx5dv_cq_init_attr compressed = {0};
	struct mlx5dv_mkey_init_attr of_mkey = {.pd = e->pd, .max_entries = 1};
	struct mlx5dv_flow_matcher_attr of_matcher = {0};

	CHECK(!mlx5dv_is_supported(c->device), "taken for mlx5");
	// Not refused, as some take that for a device that is broken, but answered with nothing.
	CHECK_EQ(mlx5dv_query_device(c, &attr), 0);
	CHECK_EQ(attr.comp_mask, 0);
	CHECK_EQ(attr.flags, 0);
	NOTHING(mlx5dv_create_qp(c, &of_qp, &dc));
	NOTHING(mlx5dv_create_cq(c, &of_cq, &compressed));
	NOTHING(mlx5dv_create_mkey(&of_mkey));
	NOTHING(mlx5dv_create_flow_matcher(c, &of_matcher));
	NOTHING(mlx5dv_pp_alloc(c, 0, NULL, 0));
	NOTHING(mlx5dv_devx_alloc_uar(c, 0));
	NOTHING(mlx5dv_alloc_var(c, 0));
	NOTHING(mlx5dv_alloc_dm(c, &(struct ibv_alloc_dm_attr){.length = 64}, &(struct mlx5dv_alloc_dm_attr){0}));
	CHECK(!mlx5dv_open_device(c->device, &(struct mlx5dv_context_attr){0}) && errno, "opened as mlx5");
}

static void efa(void)
{
	struct endpoint *e = open_endpoint(&defaults);
	struct efadv_device_attr attr;
	struct efadv_qp_init_attr srd = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD};
	struct efadv_cq_init_attr of_efa = {0};
	struct ibv_cq_init_attr_ex of_cq = {.cqe = 4};
	struct ibv_qp_init_attr_ex of_qp = driver_qp(e);
	struct ibv_qp_init_attr plain = {.qp_type = IBV_QPT_DRIVER, .send_cq = e->send_cq, .recv_cq = e->recv_cq};

	CHECK_EQ(efadv_query_device(e->context, &attr, sizeof(attr)), EOPNOTSUPP);
	NOTHING(efadv_create_qp_ex(e->context, &of_qp, &srd, sizeof(srd)));
	NOTHING(efadv_create_driver_qp(e->pd, &plain, EFADV_QP_DRIVER_TYPE_SRD));
	NOTHING(efadv_create_cq(e->context, &of_cq, &of_efa, sizeof(of_efa)));
}

PROGRAM({"mlx5", mlx5, 0}, {"efa", efa, 0})
