package fair

import "sync"

// Sweep calls step with the lock held until step reports that nothing is left. It releases the
// lock after every 1000 calls, so that others need not wait for all of them.
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
