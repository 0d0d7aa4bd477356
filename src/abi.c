/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sizes of all public structs, which programs that are compiled already count on: the rules are in
 * <ckpt/ckpt.h>. A struct that ends in padding does not compile, and one that changes its size only
 * together with its row here: a sized one may grow, with the version that its row gets then; the others
 * never change. tests/manners.py looks that none is missing.
 */
#include <ckpt/ckpt.h>

#include <assert.h>
#include <stddef.h>

#if __SIZEOF_POINTER__ == 8
#define HAS_SIZE(type, size) static_assert(sizeof(struct type) == (size), #type " has another size");
#else
#define HAS_SIZE(type, size)
#endif

/* Struct, its last member, its size with pointers of 64 bits. */
#define SIZED(type, last, bytes) \
	static_assert(offsetof(struct type, size) == 0, #type " does not begin with its size"); \
	static_assert(offsetof(struct type, last) + sizeof(((struct type *)0)->last) == \
			      sizeof(struct type), \
		      #type " ends in padding"); \
	HAS_SIZE(type, bytes)

#define FIXED(type, bytes) HAS_SIZE(type, bytes)

SIZED(ckpt_collectives, ctx, 48)
SIZED(ckpt_broadcast_options, bandwidth, 208)
SIZED(ckpt_broadcast_report, no_note, 1904)
SIZED(ckpt_evicted, reserved, 48)
SIZED(ckpt_evict_options, reserved, 56)
SIZED(ckpt_evict_report, reserved, 64)
SIZED(ckpt_inner, tensors, 48)
SIZED(ckpt_reindex_options, naming_ctx, 72)
SIZED(ckpt_reindex_report, nbytes, 56)
SIZED(ckpt_diff_options, takes_ctx, 128)
SIZED(ckpt_diff_numbers, norm_b, 168)
SIZED(ckpt_difference, reserved, 88)
SIZED(ckpt_diff_report, other_keys, 424)
SIZED(ckpt_key_options, at_count, 32)
SIZED(ckpt_remap_options, reserved, 16)
SIZED(ckpt_take_options, at, 16)
SIZED(ckpt_cast_options, as, 56)
SIZED(ckpt_average_options, as, 80)
SIZED(ckpt_edit_report, quantized_left, 296)
SIZED(ckpt_cast_report, underflow, 1016)
SIZED(ckpt_prefix_count, keys, 24)
SIZED(ckpt_wrapper_count, keys, 48)
SIZED(ckpt_gpu_file, nbytes, 32)
SIZED(ckpt_tensor_info, reserved, 120)
SIZED(ckpt_item, reserved, 56)
SIZED(ckpt_file_info, dead_on_disk, 128)
SIZED(ckpt_record, stored, 40)
SIZED(ckpt_reader_options, reserved, 48)
SIZED(ckpt_node_info, class_name, 88)
SIZED(ckpt_node_rebuild, stride, 296)
SIZED(ckpt_storage_info, reserved2, 80)
SIZED(ckpt_storage_read_options, progress_ctx, 40)
SIZED(ckpt_tensor_view, dtype, 48)
SIZED(ckpt_array_info, reserved, 176)
SIZED(ckpt_part_size, nbytes, 32)
SIZED(ckpt_part_place, nbytes, 56)
SIZED(ckpt_extra, same_as, 40)
SIZED(ckpt_quant_options, config_len, 40)
SIZED(ckpt_quant_weight_info, items, 64)
SIZED(ckpt_repair_finding, text, 64)
SIZED(ckpt_repair_options, reserved, 48)
SIZED(ckpt_repair_report, optimizer_lost, 96)
SIZED(ckpt_save_options, file_count, 184)
SIZED(ckpt_save_report, freed, 112)
SIZED(ckpt_scan_global, kind, 40)
SIZED(ckpt_scan_finding, text, 56)
SIZED(ckpt_scan_refusal, text, 48)
SIZED(ckpt_scan_file, weights_only_unknown, 112)
SIZED(ckpt_scan_options, cancel, 40)
SIZED(ckpt_scan_report, passed_over, 72)
SIZED(ckpt_stat_options, takes_ctx, 96)
SIZED(ckpt_stat_values, quantile_count, 168)
SIZED(ckpt_stat_item, reserved, 104)
SIZED(ckpt_stat_total, items, 24)
SIZED(ckpt_stat_group, unreadable, 48)
SIZED(ckpt_finding, reserved, 56)
SIZED(ckpt_verify_options, sha256sums, 56)
SIZED(ckpt_verify_report, sha256, 104)
SIZED(ckpt_cause, mend_count, 64)
SIZED(ckpt_plain_model, reserved, 40)
SIZED(ckpt_why_options, error_len, 32)
SIZED(ckpt_why_report, large, 24)

FIXED(ckpt_diff_side, 80)
FIXED(ckpt_diff_counts, 48)
FIXED(ckpt_cast_loss, 504)
FIXED(ckpt_edit_place, 16)
FIXED(ckpt_edit_change, 24)
FIXED(ckpt_device_map, 16)
FIXED(ckpt_name_pair, 24)
FIXED(ckpt_error, 1024)
FIXED(ckpt_mend, 16)
FIXED(ckpt_side_file, 32)
FIXED(ckpt_storage_range, 32)
