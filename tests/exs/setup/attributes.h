// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef ATTRIBUTES_H
#define ATTRIBUTES_H

#include "exs_client_setup.h"
#include "twists.h"

// What exs_qstatus() and exs_qmodify() refuse alike.

static int depth;
static exs_signal_t signal_value;
static void *value;
static size_t value_size;

static inline int a_value(param *p)
{
	p->attribute = EXS_QATTR_DEPTH;
	depth = p->depth;
	value = &depth;
	value_size = sizeof(depth);
	return 0;
}

static inline int queue_and_value(param *p)
{
	return with_queue(p) < 0 ? -1 : a_value(p);
}

static inline int connected_with_value(param *p)
{
	return connected(p) < 0 ? -1 : a_value(p);
}

static inline void signal_attribute(param *p)
{
	p->attribute = EXS_QATTR_SIGNAL;
	value = &signal_value;
	value_size = sizeof(signal_value);
}

static inline void wait_attribute(param *p)
{
	p->attribute = EXS_QATTR_WAIT;
}

static inline void no_such_attribute(param *p)
{
	p->attribute = 99;
}

static inline void wrong_size(param *p)
{
	value_size--;
	(void)p;
}

static inline void no_value(param *p)
{
	value = NULL;
	(void)p;
}

static inline void wild_value(param *p)
{
	value = (void *)64;
	(void)p;
}

static inline void null_qhandle(param *p)
{
	p->qh = NULL;
}

// Numbers 1 to 8.
#define ATTRIBUTE_TESTS \
	{1, ERROR(EPERM), .state = a_value}, \
	{2, ERROR(EINVAL), .state = queue_and_value, .twist = bad_qhandle}, \
	{3, ERROR(EINVAL), .state = queue_and_value, .twist = null_qhandle}, \
	{4, ERROR(EINVAL), .state = queue_and_value, .twist = deleted_qhandle}, \
	{5, ERROR(EINVAL), .state = queue_and_value, .twist = no_such_attribute}, \
	{6, ERROR(EINVAL), .state = queue_and_value, .twist = wrong_size}, \
	{7, ERROR(EFAULT), .state = queue_and_value, .twist = no_value}, \
	{8, ERROR(EFAULT), .state = queue_and_value, .twist = wild_value}

#endif
