package stages

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"minsep/internal/manifest"
	"minsep/internal/strictjson"
)

// TrainingOfPlan returns the part of a plan that may change its training: everything except the
// layout of files.
func TrainingOfPlan(plan json.RawMessage) ([]byte, error) {
	var r PlanRecord
	if err := strictjson.Loose(plan, &r); err != nil {
		return nil, fmt.Errorf("stages: %s: plan: %w", manifest.RunName, err)
	}
	r.Plan = r.without("files")
	return json.Marshal(r)
}

// TrainingDigest returns the SHA-256 of [TrainingOfPlan].
func TrainingDigest(plan json.RawMessage) (manifest.Digest, error) {
	b, err := TrainingOfPlan(plan)
	return sha256.Sum256(b), err
}
