package audit

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/manifest"
)

// maxValues is the largest number of values in a file of observations: 8 GiB of float64.
const maxValues = 1 << 30

// ReadObservations reads released sums from an .npy file of shape [observations, steps] and of any
// number type. Each row is one coordinate, in the order of the steps. name is the flag or field
// that gave the path. Faults of the file are *param.Error.
func ReadObservations(ctx context.Context, name, path string, steps int) ([][]float64, error) {
	refused := func(rule string, args ...any) error {
		return &param.Error{Package: "audit", Param: name, Value: path, Rule: fmt.Sprintf(rule, args...)}
	}
	f, err := store.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(store.Reader(f), 1<<20)
	h, err := manifest.ReadNPYHeader(r)
	if errors.Is(err, manifest.ErrNPYObjects) {
		return nil, refused("holds Python objects and no numbers, as NumPy makes of rows of different lengths: every row must have %d numbers, one a step; save numpy.array(sums, dtype=numpy.float64)", steps)
	}
	if err != nil {
		return nil, refused("must be an .npy file of numbers as numpy.save writes an array of shape [observations, steps] in C order (numpy.ascontiguousarray): %s", strings.TrimPrefix(err.Error(), "manifest: "))
	}
	switch {
	case len(h.Shape) != 2:
		return nil, refused("has shape %v: must be [observations, %d], a row for each observation and a column for each step", h.Shape, steps)
	case h.Shape[1] != steps && h.Shape[0] == steps:
		return nil, refused("has shape %v: must be [observations, %d]; it looks transposed: save numpy.ascontiguousarray(sums.T)", h.Shape, steps)
	case h.Shape[1] != steps:
		return nil, refused("has shape %v: must be [observations, %d], as the certificate is for %d steps", h.Shape, steps, steps)
	case h.Elements() > maxValues:
		return nil, refused("has %d values: must have at most %d", h.Elements(), maxValues)
	case int64(h.Elements())*int64(h.DType.Size()) > f.Size():
		return nil, refused("is shorter than its header says: it was cut off")
	}
	values := make([]float64, h.Elements())
	raw, valueOf := make([]byte, h.DType.Size()), decoder(h.DType)
	for i := range values {
		if err := ctx.Err(); i%(1<<16) == 0 && err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(r, raw); err != nil {
			return nil, refused("is shorter than its header says: it was cut off")
		}
		values[i] = valueOf(raw)
		if math.IsNaN(values[i]) || math.IsInf(values[i], 0) {
			return nil, refused("row %d has %v at step %d: must be finite numbers", i/steps, values[i], i%steps)
		}
	}
	if _, err := r.ReadByte(); err == nil {
		return nil, refused("is longer than its header says")
	}
	rows := make([][]float64, h.Shape[0])
	for i := range rows {
		rows[i] = values[i*steps : (i+1)*steps]
	}
	return rows, nil
}

// LeastObservations is the number of observations that each side needs so that an attack which is
// always right shows more than epsilon at delta. With fewer, no audit can say [Exceeds].
func LeastObservations(epsilon, delta float64) int {
	shows := func(m int) bool {
		return Rates{True: m, Of: m, False: 0, FalseOf: m}.bounded(FalseAlarm/8).epsilon(delta) > epsilon
	}
	high := 1
	for !shows(high) {
		if high > 1<<40 {
			return high
		}
		high *= 2
	}
	low := high / 2
	for high-low > 1 {
		if mid := (low + high) / 2; shows(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// decoder reads a value of an element type.
func decoder(of manifest.DType) func(raw []byte) float64 {
	little := binary.LittleEndian
	switch of {
	case manifest.DFloat32:
		return func(raw []byte) float64 { return float64(math.Float32frombits(little.Uint32(raw))) }
	case manifest.DFloat64:
		return func(raw []byte) float64 { return math.Float64frombits(little.Uint64(raw)) }
	case manifest.DInt32:
		return func(raw []byte) float64 { return float64(int32(little.Uint32(raw))) }
	}
	return func(raw []byte) float64 { return float64(int64(little.Uint64(raw))) }
}
