package admit

import "time"

// maxPassed is the number of slots in a row that an execution in the background waits for while
// others get them. It bounds how long it waits when there are always others.
const maxPassed = 8

// next returns the owner and class that receive the next free slot; the owner is nil if there is
// none. The background is last, except after maxPassed others.
func (q *slots) next() (o *owner, c class) {
	first, last := q.first(interactive), q.first(background)
	if first == nil || last != nil && q.passed >= maxPassed {
		return last, background
	}
	return first, interactive
}

// first returns the owner of a class that receives the next slot of the class; nil if there is none.
func (q *slots) first(c class) (o *owner) {
	for e := q.turns[c].Front(); e != nil; e = e.Next() {
		if one := e.Value.(*owner); q.allows(one.running, one.most) && (o == nil || one.running < o.running) {
			o = one
		}
	}
	return o
}

// admit assigns free slots to waiters.
func (q *slots) admit() {
	for o, c := q.next(); o != nil; o, c = q.next() {
		switch {
		case c == background:
			q.passed = 0
		case q.first(background) != nil:
			q.passed++
		}
		w := o.lines[c].waiting.Front().Value.(*waiter)
		q.remove(w)
		q.dequeue(o, c)
		q.running++
		o.running++
		w.start = time.Since(q.epoch)
		q.starts += w.start
		q.enqueue(o, c) // at the back
		w.result <- nil
	}
}

// enqueue adds o to the turns of a class if it has waiters and is below PerOwner.
func (q *slots) enqueue(o *owner, c class) {
	if l := &o.lines[c]; l.turn == nil && l.waiting.Len() > 0 && o.running < o.most {
		l.turn = q.turns[c].PushBack(o)
	}
}

func (q *slots) dequeue(o *owner, c class) {
	if l := &o.lines[c]; l.turn != nil {
		q.turns[c].Remove(l.turn)
		l.turn = nil
	}
}
