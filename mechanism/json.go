package mechanism

import (
	"encoding/json"
	"fmt"
	"io"

	"minsep/internal/strictjson"
)

// version is the version of the JSON form of a [Strategy].
const version = 1

// wire is the JSON form: the fields of Strategy and the version.
type wire struct {
	Version int `json:"version"`
	*plain
}

// plain is Strategy without its methods.
type plain Strategy

// maxStrategyBytes is the largest size of a strategy's JSON, so that a hostile file cannot fill the
// memory: some 1e8 numbers.
const maxStrategyBytes = 2 << 30

// maxEntries is the largest number of entries that hold a strategy: 2 GiB.
const maxEntries = 1 << 28

// ReadStrategy reads one strategy and requires that nothing follows it. It reads at most 2 GiB.
func ReadStrategy(r io.Reader) (*Strategy, error) {
	data, err := readAtMost(r, maxStrategyBytes)
	if err == nil {
		err = strictjson.Foreign(data)
	}
	if err != nil {
		return nil, fmt.Errorf("strategy: %w", err)
	}
	s := new(Strategy)
	if err := json.Unmarshal(data, s); err != nil {
		return nil, err
	}
	return s, nil
}

// readAtMost reads to the end of r, or refuses it if it is longer than limit.
func readAtMost(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("is longer than %d bytes", limit)
	}
	return data, err
}
