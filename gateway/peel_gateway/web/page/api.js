// SPDX-License-Identifier: MIT
// Requests to the gateway.

export class Refused extends Error {
	constructor(status, message) {
		super(message);
		this.status = status;
	}
}

export class Unreachable extends Error {}

async function answer(path, options) {
	let response;
	try {
		response = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
	} catch {
		throw new Unreachable("the gateway does not respond");
	}
	const body = await response.json().catch(() => ({}));
	if (!response.ok) throw new Refused(response.status, body.error ?? response.statusText);
	return body;
}

export function ask(path, parameters = {}) {
	const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
	const query = new URLSearchParams(given).toString();
	return answer(query ? `${path}?${query}` : path);
}

export const tell = (path, fields = {}) => answer(path, { method: "POST", body: new URLSearchParams(fields) });
