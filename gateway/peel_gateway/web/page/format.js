// SPDX-License-Identifier: MIT
// Numbers and times for people: the same rounding everywhere.

const plain = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const NARROW = "\u202f";

export const count = (n) => plain.format(n);
export const short = (n) => (n < 100000 ? plain.format(n) : compact.format(n));
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

// Decimals that an interval of this width deserves: its half has two digits.
export function decimalsFor(width) {
	if (!(width > 0)) return 2;
	return Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(width / 2))));
}

export function fixed(value, decimals) {
	const text = Math.abs(value).toLocaleString("en", {
		minimumFractionDigits: decimals,
		maximumFractionDigits: decimals,
	});
	return value < 0 && /[1-9]/.test(text) ? `\u2212${text}` : text;
}

const SUPERSCRIPTS = [..."⁰¹²³⁴⁵⁶⁷⁸⁹"];
const superscript = (power) => (power < 0 ? "⁻" : "") + [...String(Math.abs(power))].map((digit) => SUPERSCRIPTS[digit]).join("");

// Numbers of seven digits or with three zeros behind the point are shown times a power of ten.
function powerOf(range) {
	const power = Math.floor(Math.log10(Math.max(...range.map(Math.abs))) / 3) * 3;
	return power >= 6 || power < -3 ? power : 0;
}

const SHARES = new Set(["above", "ladder", "category", "hashed"]);
export const isShare = (figure) => SHARES.has(figure.kind);

// A figure's numbers as shown: a share of readings or devices is shown in percent.
export function scaleOf(figure, share = isShare(figure)) {
	const power = share ? -2 : powerOf(figure.range);
	const factor = 10 ** -power;
	const unit = share ? "%" : [power ? `×10${superscript(power)}` : "", figure.unit].join(NARROW).trim();
	const wide = figure.high === null ? figure.range[1] - figure.range[0] : figure.high - figure.low;
	const decimals = decimalsFor(wide * factor);
	return {
		unit,
		factor,
		number: (value) => fixed(value * factor, decimals),
		withUnit: (value) => withUnit(fixed(value * factor, decimals), unit),
		end: (value) => fixed(value * factor, 3).replace(/\.?0+$/, ""),
	};
}

export const withUnit = (text, unit) => (unit ? `${text}${NARROW}${unit}` : text);

export const percent = (share) => {
	const value = share * 100;
	return `${value >= 10 ? value.toFixed(0) : Number(value.toPrecision(2))}${NARROW}%`;
};

export const epsilon = (value) => `ε ${Number.isInteger(value) ? count(value) : fixed(value, value < 10 ? 2 : 0)}`;

const SPANS = [
	[86400, "d"],
	[3600, "h"],
	[60, "min"],
	[1, "s"],
];

export function duration(seconds) {
	for (const [size, name] of SPANS) {
		if (seconds >= size * 1.95 || size === 1) {
			const value = seconds / size;
			return `${value >= 10 || size === 1 ? Math.round(value) : Number(value.toFixed(1))}${NARROW}${name}`;
		}
	}
	return "";
}

export function ago(moment, now = Date.now()) {
	const seconds = Math.max(0, (now - Date.parse(moment)) / 1000);
	return seconds < 2 ? "just now" : `${duration(seconds)} ago`;
}

export function bytes(size) {
	const names = ["B", "KB", "MB", "GB", "TB"];
	let value = Math.abs(size);
	let place = 0;
	while (value >= 1000 && place < names.length - 1) {
		value /= 1000;
		place += 1;
	}
	return `${size < 0 ? "\u2212" : ""}${value >= 100 || place === 0 ? Math.round(value) : Number(value.toPrecision(2))}${NARROW}${names[place]}`;
}

export function clock(moment, seconds) {
	const options = seconds < 86400 ? { hour: "2-digit", minute: "2-digit" } : { month: "short", day: "numeric" };
	if (seconds < 600) options.second = "2-digit";
	return new Date(moment).toLocaleString("en-GB", options);
}

export const exact = (moment) => new Date(moment).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
