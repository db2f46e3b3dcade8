// Drawing at most ten times a second.

const interval = 100; // milliseconds

/** Calls draw soon after it was asked for, once for all who asked. While the page is hidden it waits. */
export class Pace {
  #last = 0;
  #timer = 0;
  #frame = 0;

  constructor(draw) {
    this.draw = draw;
  }

  ask() {
    if (this.#timer || this.#frame) return;
    this.#timer = setTimeout(() => {
      this.#timer = 0;
      this.#frame = requestAnimationFrame(() => {
        this.#frame = 0;
        this.#last = performance.now();
        this.draw();
      });
    }, Math.max(0, this.#last + interval - performance.now()));
  }

  stop() {
    clearTimeout(this.#timer);
    cancelAnimationFrame(this.#frame);
    this.#timer = this.#frame = 0;
  }
}
