package noise

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"slices"
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
	sum := sha256.New()
	out := io.MultiWriter(w, sum)
	_, err := out.Write(g.checkpointHead(g.step))
	buf := make([]byte, 8*statePart)
	for part := range g.state() {
		if err != nil {
			break
		}
		n, _ := binary.Encode(buf, binary.LittleEndian, part) // which has room
		_, err = out.Write(buf[:n])
	}
	if err == nil {
		_, err = w.Write(sum.Sum(nil))
	}
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// statePart is the number of values of a state that are written or read at a time.
const statePart = 4096

// state gives the rows that the generator holds, some values at a time.
func (g *Generator) state() iter.Seq[[]float64] {
	return func(yield func([]float64) bool) {
		for _, held := range [][]float64{g.ring, g.buffers} {
			for part := range slices.Chunk(held, statePart) {
				if !yield(part) {
					return
				}
			}
		}
	}
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
	step, err := g.readState(r, sum)
	var want [sha256.Size]byte
	if err == nil {
		_, err = io.ReadFull(r, want[:])
	}
	if err == nil && string(sum.Sum(nil)) != string(want[:]) {
		err = errors.New("its SHA-256 does not match")
	}
	if err == nil {
		if n, _ := io.ReadFull(r, want[:1]); n > 0 {
			err = errors.New("it is longer than a checkpoint of this noise")
		}
	}
	if err != nil {
		clear(g.ring)
		clear(g.buffers)
		return fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	g.step, g.first = step, step
	for i := range g.next {
		g.next[i] = step
	}
	return nil
}

// readState reads the head of a checkpoint, which must be that of one of the steps that are known,
// and the rows, and adds all that it reads to sum. It returns the step.
func (g *Generator) readState(r io.Reader, sum hash.Hash) (step int, err error) {
	in := io.TeeReader(r, sum)
	head := make([]byte, len(g.checkpointHead(0)))
	if _, err := io.ReadFull(in, head); err != nil {
		return 0, err
	}
	given := binary.LittleEndian.Uint64(head[len(head)-8:])
	if given > uint64(len(g.bytes)) || string(head) != string(g.checkpointHead(int(given))) {
		return 0, errors.New("its head is of another one")
	}
	buf := make([]byte, 8*statePart)
	for part := range g.state() {
		if _, err := io.ReadFull(in, buf[:8*len(part)]); err != nil {
			return 0, err
		}
		if _, err := binary.Decode(buf, binary.LittleEndian, part); err != nil {
			return 0, err
		}
	}
	return int(given), nil
}
