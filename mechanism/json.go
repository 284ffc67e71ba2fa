package mechanism

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Version is the version of the JSON form of a [Strategy].
const Version = 1

// ErrVersion is returned for a strategy file of another version.
var ErrVersion = errors.New("mechanism: strategy of another version")

// wire is the JSON form: the fields of Strategy and the version.
type wire struct {
	Version int `json:"version"`
	*plain
}

// plain is Strategy without its methods.
type plain Strategy

// MarshalJSON writes s with its version. Numbers have as many digits as they need to be read back alike.
func (s *Strategy) MarshalJSON() ([]byte, error) {
	return json.Marshal(wire{Version, (*plain)(s)})
}

// UnmarshalJSON reads a strategy and validates it. It refuses another version ([ErrVersion]) and fields it does not know.
func (s *Strategy) UnmarshalJSON(data []byte) error {
	var head struct{ Version int }
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("mechanism: strategy: %w", err)
	}
	if head.Version != Version {
		return fmt.Errorf("%w: version %d: this program reads version %d", ErrVersion, head.Version, Version)
	}
	var read plain
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&wire{plain: &read}); err != nil {
		return fmt.Errorf("mechanism: strategy: %w", err)
	}
	if err := (*Strategy)(&read).Validate(); err != nil {
		return err
	}
	*s = Strategy(read)
	return nil
}

// ReadStrategy reads one strategy and requires that nothing follows it.
func ReadStrategy(r io.Reader) (*Strategy, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("mechanism: strategy: %w", err)
	}
	s := new(Strategy)
	if err := json.Unmarshal(data, s); err != nil {
		return nil, err
	}
	return s, nil
}

// ReadWorkload reads one workload from JSON, refuses fields that it does not know and validates it.
func ReadWorkload(r io.Reader) (*Workload, error) {
	decoder := json.NewDecoder(r)
	decoder.DisallowUnknownFields()
	a := new(Workload)
	if err := decoder.Decode(a); err != nil {
		return nil, fmt.Errorf("mechanism: workload: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("mechanism: workload: something follows it")
	}
	if err := a.Validate(); err != nil {
		return nil, err
	}
	return a, nil
}
