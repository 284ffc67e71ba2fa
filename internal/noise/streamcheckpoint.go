package noise

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
)

// streamCheckpointMagic begins a checkpoint of a stream.
const streamCheckpointMagic = "minsep-noise-stream-checkpoint/2\n"

// WriteCheckpoint writes the state from which a stream of the same recipe, key, bytes of steps and
// coordinates goes on at the present step: the rows that it holds. They are as secret as the noise.
// Later rows have the same bytes as without the interruption. No row may have been made ahead of the
// step, as after [Stream.Until]. If [Stream.Restartable] is true, a checkpoint saves nothing.
func (s *Stream) WriteCheckpoint(w io.Writer) error {
	for _, next := range s.next {
		if next > s.step {
			return fmt.Errorf("noise: checkpoint: rows to step %d are made, beyond step %d: a trainer that goes on there draws other bytes for them", next, s.step)
		}
	}
	s.first = s.step // the tiles begin anew, some rows apart
	return writeState(w, s.checkpointHead(s.step), s.ring, s.g.state)
}

// checkpointHead returns the head of a checkpoint: the magic, the binding, the coordinates, the
// layout of the rows, and the step.
func (s *Stream) checkpointHead(step int) []byte {
	b := s.g.bound(streamCheckpointMagic, step)
	for _, v := range []int64{s.g.lo, s.g.hi, int64(s.tiles), int64(s.slots), int64(s.tile), int64(len(s.g.state)), int64(step)} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

// ReadCheckpoint goes to the step of a checkpoint of the same recipe, key, bytes of steps and
// coordinates. The stream must be at step 0. For any other checkpoint, and for a damaged one, the
// error wraps [ErrCheckpoint], and the stream stays at step 0.
func (s *Stream) ReadCheckpoint(r io.Reader) error {
	sum := sha256.New()
	in := io.TeeReader(r, sum)
	step, err := readHead(in, s.checkpointHead, 8, len(s.g.bytes))
	if err != nil {
		return err
	}
	if err := readState(in, r, sum, s.ring, s.g.state); err != nil {
		clear(s.ring)
		clear(s.g.state)
		return err
	}
	s.step, s.first = step, step
	for i := range s.next {
		s.next[i] = step
	}
	return nil
}
