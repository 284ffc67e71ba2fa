#!/bin/sh
# Runs a plan of minsep on Dataflow. Further arguments go to the command: --dry-run, --max_num_workers 50.
#
#   PROJECT=p REGION=europe-west4 BUCKET=gs://bucket ./launch.sh plan.json
set -eu
: "${PROJECT:?the project that pays}" "${REGION:?the region of the workers}" "${BUCKET:?gs://bucket for what Beam stages}"
plan=${1:?a plan file}
shift

# A job is named by its time, so that two do not meet. The workers' identity, and the image that they start, are optional.
exec "${MINSEP:-minsep}" run "$plan" \
  --runner dataflow \
  --project "$PROJECT" \
  --region "$REGION" \
  --staging_location "$BUCKET/staging" \
  --job_name "minsep-$(date -u +%Y%m%d-%H%M%S)" \
  --worker_machine_type "${MACHINE:-n2-standard-4}" \
  ${SERVICE_ACCOUNT:+--service_account_email "$SERVICE_ACCOUNT"} \
  ${IMAGE:+--sdk_container_image "$IMAGE"} \
  "$@"
