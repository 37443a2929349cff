// SPDX-License-Identifier: MIT
// The event stream: passes on events, and notices when the connection is lost.

const AGAIN_SECONDS = [1, 2, 5, 10];
const SILENT_SECONDS = 20; // the gateway sends an event every 5

export class Stream {
	#source = null;
	#failures = 0;
	#timer = 0;
	#heard = 0;

	// listeners: summary(table), trouble(text), lost(), again()
	constructor(listeners) {
		this.listeners = listeners;
		setInterval(() => this.#watch(), 2000);
	}

	open() {
		this.close();
		this.#heard = Date.now();
		this.#source = new EventSource("/api/events");
		this.#source.addEventListener("summary", (event) =>
			this.#hear(() => this.listeners.summary(JSON.parse(event.data))),
		);
		this.#source.addEventListener("trouble", (event) =>
			this.#hear(() => this.listeners.trouble(JSON.parse(event.data).error)),
		);
		this.#source.addEventListener("error", () => this.#lose());
	}

	close() {
		clearTimeout(this.#timer);
		this.#source?.close();
		this.#source = null;
	}

	#hear(listener) {
		this.#failures = 0;
		this.#heard = Date.now();
		listener();
	}

	// Browsers reconnect after some kinds of failure only, so the page reconnects itself.
	#lose() {
		this.close();
		this.listeners.lost();
		const seconds = AGAIN_SECONDS[Math.min(this.#failures, AGAIN_SECONDS.length - 1)];
		this.#failures += 1;
		this.#timer = setTimeout(() => this.listeners.again(), seconds * 1000);
	}

	#watch() {
		if (this.#source && Date.now() - this.#heard > SILENT_SECONDS * 1000) this.#lose();
	}
}
