package fair

import "sync"

// Sweep calls step with the lock held until it reports that nothing is left. It gives the lock
// up after every 1000 calls, so that others are not held up by all of them.
func Sweep(lock sync.Locker, step func() (more bool)) {
	for more := true; more; {
		func() {
			lock.Lock()
			defer lock.Unlock()
			for n := 0; more && n < 1000; n++ {
				more = step()
			}
		}()
	}
}
