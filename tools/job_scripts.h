/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_JOB_SCRIPTS_H
#define CKPT_TOOLS_JOB_SCRIPTS_H

/* The text of files in examples/, which the build embeds: the CMakeLists.txt says which. They end with a 0. */
extern const char job_script_slurm_prolog[]; /* broadcast-slurm-prolog.sh */
extern const char job_script_k8s[];	     /* broadcast-kubernetes.yaml */

#endif
