package noise

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
)

// checkpointMagic begins a checkpoint.
const checkpointMagic = "minsep-noise-checkpoint/3\n"

// ErrCheckpoint says that a checkpoint is damaged, or belongs to other noise than the generator's.
var ErrCheckpoint = errors.New("not a checkpoint of this noise")

// WriteCheckpoint writes the state from which a generator of the same recipe, key, bytes of steps and
// coordinates goes on at the present step: the rows that it holds. They are as secret as the noise.
// Later rows have the same bytes as without the interruption. No row may have been made ahead of the
// step, as after [Generator.Until]. If [Generator.Restartable] is true, a checkpoint saves nothing.
func (g *Generator) WriteCheckpoint(w io.Writer) error {
	for _, next := range g.next {
		if next > g.step {
			return fmt.Errorf(
				"checkpoint: rows to step %d are made, beyond step %d: a trainer that goes on there draws other bytes for them",
				next,
				g.step,
			)
		}
	}
	g.first = g.step // the tiles begin anew, some rows apart
	return writeState(w, g.checkpointHead(g.step), g.ring, g.buffers)
}

// writeState writes a head, states and the SHA-256 of both.
func writeState(w io.Writer, head []byte, states ...[]float64) error {
	sum := sha256.New()
	out := io.MultiWriter(w, sum)
	if _, err := out.Write(head); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	buf := make([]byte, 0, 8*4096)
	for _, state := range states {
		for len(state) > 0 {
			n := min(len(state), 4096)
			buf = buf[:0]
			for _, v := range state[:n] {
				buf = binary.LittleEndian.AppendUint64(buf, math.Float64bits(v))
			}
			if _, err := out.Write(buf); err != nil {
				return fmt.Errorf("checkpoint: %w", err)
			}
			state = state[n:]
		}
	}
	if _, err := w.Write(sum.Sum(nil)); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// checkpointHead returns the head of a checkpoint: the magic, the commitment to the key, which binds
// the run id and all parameters, the SHA-256 of the bytes of the steps before it, the coordinates,
// the layout of the rows, and the step.
func (g *Generator) checkpointHead(step int) []byte {
	sum := sha256.New()
	for _, bytes := range g.bytes[:step] {
		sum.Write(bytes[:])
	}
	commitment := g.key.Commitment()
	b := sum.Sum(append([]byte(checkpointMagic), commitment[:]...))
	for _, v := range []int64{g.lo, g.hi, int64(g.tiles), int64(g.slots), int64(g.tile), int64(len(g.buffers)), int64(step)} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

// ReadCheckpoint goes to the step of a checkpoint of the same recipe, key, bytes of steps and
// coordinates. The generator must be at step 0. For any other checkpoint, and for a damaged one, the
// error wraps [ErrCheckpoint], and it stays at step 0.
func (g *Generator) ReadCheckpoint(r io.Reader) error {
	sum := sha256.New()
	in := io.TeeReader(r, sum)
	step, err := readHead(in, g.checkpointHead, 8, len(g.bytes))
	if err != nil {
		return err
	}
	if err := readState(in, r, sum, g.ring, g.buffers); err != nil {
		clear(g.ring)
		clear(g.buffers)
		return err
	}
	g.step, g.first = step, step
	for i := range g.next {
		g.next[i] = step
	}
	return nil
}

// readHead reads a head and returns its step, from 0 to steps. The step is in the 8 bytes that
// begin fromEnd bytes before the end of the head. headOf gives the only head of a step, with which
// the head must agree byte for byte.
func readHead(in io.Reader, headOf func(step int) []byte, fromEnd, steps int) (step int, err error) {
	head := make([]byte, len(headOf(0)))
	if _, err := io.ReadFull(in, head); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	given := int64(binary.LittleEndian.Uint64(head[len(head)-fromEnd:]))
	if given < 0 || given > int64(steps) || string(head) != string(headOf(int(given))) {
		return 0, ErrCheckpoint
	}
	return int(given), nil
}

// readState reads states through in, which feeds sum, and then the digest from r. r must end there.
func readState(in, r io.Reader, sum hash.Hash, states ...[]float64) error {
	buf := make([]byte, 8*4096)
	for _, state := range states {
		for len(state) > 0 {
			n := min(len(state), 4096)
			if _, err := io.ReadFull(in, buf[:8*n]); err != nil {
				return fmt.Errorf("%w: %w", ErrCheckpoint, err)
			}
			for i := range n {
				state[i] = math.Float64frombits(binary.LittleEndian.Uint64(buf[8*i:]))
			}
			state = state[n:]
		}
	}
	var want [sha256.Size]byte
	if _, err := io.ReadFull(r, want[:]); err != nil {
		return fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	if string(sum.Sum(nil)) != string(want[:]) {
		return fmt.Errorf("%w: its SHA-256 does not match", ErrCheckpoint)
	}
	switch n, err := io.ReadFull(r, want[:1]); {
	case n > 0:
		return fmt.Errorf("%w: it is longer than a checkpoint of this noise", ErrCheckpoint)
	case err != io.EOF:
		return fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	return nil
}
