"""Text that an English vocabulary does not know: scripts without spaces, long unbroken runs. Written for the tests."""

import base64
import random

_RANDOM = random.Random(7)

# Each says roughly: the ferry leaves at seven every day but Sunday, be there ten minutes before, buy tickets on board.
PROSE = {
    "thai": "เรือข้ามฟากออกจากท่าเวลาเจ็ดโมงเช้าทุกวันยกเว้นวันอาทิตย์ ผู้โดยสารต้องมาถึงก่อนเวลาออกเดินทางอย่างน้อยสิบนาที "
    "ตั๋วซื้อได้ที่ท่าเรือหรือบนเรือ เด็กอายุต่ำกว่าห้าปีเดินทางฟรี",
    "khmer": "សាឡាងចេញពីកំពង់ផែនៅម៉ោងប្រាំពីរព្រឹករៀងរាល់ថ្ងៃ លើកលែងតែថ្ងៃអាទិត្យ។ "
    "អ្នកដំណើរត្រូវមកដល់យ៉ាងហោចណាស់ដប់នាទីមុនពេលចេញដំណើរ។ សំបុត្រអាចទិញបាននៅកំពង់ផែ។",
    "burmese": "ကူးတို့သင်္ဘောသည် တနင်္ဂနွေနေ့မှလွဲ၍ နေ့တိုင်း မနက်ခုနစ်နာရီတွင် ထွက်ခွာသည်။ ခရီးသည်များသည် ထွက်ခွာချိန်မတိုင်မီ ဆယ်မိနစ်ကြိုရောက်ရမည်။",
    "lao": "ເຮືອຂ້າມຟາກອອກຈາກທ່າເຮືອເວລາເຈັດໂມງເຊົ້າທຸກມື້ ຍົກເວັ້ນວັນອາທິດ ຜູ້ໂດຍສານຕ້ອງມາຮອດກ່ອນເວລາອອກເດີນທາງຢ່າງໜ້ອຍສິບນາທີ",
    "chinese": "渡轮每天早上七点从码头出发，星期日除外。乘客必须在出发前至少十分钟到达。船票可以在码头或船上购买，五岁以下的儿童免费乘坐。",
    "traditional": "渡輪每天早上七點從碼頭出發，星期日除外。乘客必須在出發前至少十分鐘到達。船票可以在碼頭或船上購買。",
    "japanese": "フェリーは日曜日を除く毎日、午前七時に港を出発します。乗客は出発の少なくとも十分前に到着しなければなりません。",
    "amharic": "ጀልባው ከእሁድ በስተቀር በየቀኑ ከጠዋቱ አንድ ሰዓት ላይ ከወደቡ ይነሳል።",
    "georgian": "ბორანი ყოველდღე დილის შვიდ საათზე გადის ნავსადგურიდან, კვირის გარდა.",
    "hindi": "नौका रविवार को छोड़कर हर दिन सुबह सात बजे बंदरगाह से निकलती है। यात्रियों को दस मिनट पहले पहुँचना चाहिए।",
}
RUNS = {
    "emoji": "".join(_RANDOM.choice("😀🚢🌊⚓🐦🏝🎣🧭🌧🥶👍🚀🎂") for _ in range(2000)),
    "base64": base64.b64encode(_RANDOM.randbytes(3000)).decode(),
    "base64url": base64.urlsafe_b64encode(_RANDOM.randbytes(3000)).decode(),
    "hexadecimal": _RANDOM.randbytes(1500).hex(),
    "dna": "".join(_RANDOM.choice("ACGT") for _ in range(3000)),
    "minified": "function a(b,c){var d=b.e||[];for(var f=0;f<d.length;f++){if(d[f].g===c){return d[f]}}return null}"
    * 30,
}
SCRIPTS = PROSE | RUNS
